#!/usr/bin/env python3
"""gush pv beside pv, and beside no meter at all: ratios in one interleaved run.

    bench/pv.py [--rounds N] [--size BYTES] [--dir DIR] [--only NAME,...] [--realtime] [--gush PATH] [--pv PATH]

Cases: zeros (head /dev/zero | X | GNU cat >/dev/null, the display on), file-null (X FILE >/dev/null), file-cat
(X FILE | GNU cat >/dev/null), to-file (GNU cat FILE | X >FILE2), lines (X -l FILE >/dev/null), start (X /dev/null, X a
written copy), limit (X -L 1G from /dev/zero for 5 s, and how far each 100 ms is from that rate).

Every round runs each contender of a case once, in shuffled order; what is printed is the median of each, and
the ratio of its time to that of gush within the same round: above 1, gush is so many times as fast. Processor
seconds are those of the meter alone. --realtime runs all programs of a case by chrt -f 10, which pushes other
work aside.
"""
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from shared import build, compare, finished, first_line, noise_file, print_machine, read_options, started

# How often the start of a program is repeated in one sample.
STARTS = 40
LIMIT_BYTES = 1 << 30
LIMIT_SECONDS = 5
WINDOW_SECONDS = 0.1


def main():
    peers = [("pv", "pv", "the pv to compare with")]
    options = read_options(__doc__, CASES, "bytes that a case moves; zeros moves 8 times as many", peers)
    gush = options.gush or build()
    with tempfile.TemporaryDirectory(prefix="gush-bench-", dir=options.dir) as work:
        bench = Bench(gush, options.pv, Path(work), options)
        print_machine([first_line([options.pv, "--version"])])
        for name in options.wanted:
            CASES[name](bench)


class Bench:
    def __init__(self, gush, pv, work, options):
        self.work, self.options = work, options
        self.meters = {"gush": [gush, "pv"], "pv": [pv]}
        # Where the display goes: shown, though it is no terminal.
        self.display = open(work / "display", "wb")

    def start(self, argv, **how):
        return started(argv, self.options, **{"stderr": self.display, **how})

    def compare(self, title, measure, aim, contenders=None):
        """gush is to be at least `aim` times as fast as pv."""
        return compare(title, contenders or self.meters, self.options.rounds, measure, {"pv": aim})


def pipeline(bench, before, meter, after, target):
    """Seconds of the whole, and processor seconds of the meter; `before`, `meter` and `after` may be missing."""
    stages = [argv for argv in (before, meter, after) if argv]
    began, feed, children = time.perf_counter(), subprocess.DEVNULL, []
    for argv in stages:
        is_last = argv is stages[-1]
        child = bench.start(argv, stdin=feed, stdout=target if is_last else subprocess.PIPE)
        if children and children[-1].stdout:
            children[-1].stdout.close()
        feed = child.stdout
        children.append(child)
    used = {id(argv): finished(child) for argv, child in zip(stages, children)}
    assert all(child.returncode == 0 for child in children), stages
    return time.perf_counter() - began, used.get(id(meter), 0)


def zeros(bench):
    size = 8 * bench.options.size

    def measure(meter):
        with open("/dev/null", "wb") as null:
            shown = meter and [*meter, "-f", "-i", "0.1", "-s", str(size)]
            return pipeline(bench, ["head", "-c", str(size), "/dev/zero"], shown, ["cat"], null)

    rounds = bench.compare(f"zeros: head -c {size} /dev/zero | X | cat >/dev/null", measure, 1.15, {**bench.meters, "no meter": []})
    used = [ours / theirs for (_, ours), (_, theirs) in zip(rounds["gush"], rounds["pv"])]
    ratio = statistics.median(used)
    print(f"- processor seconds: {ratio:.2f} of pv's, aim <= 0.8: {'reached' if ratio <= 0.8 else 'MISSED'}", flush=True)


def file_case(title, aim, words=(), before=None, after=None, content=noise_file, into_file=False):
    def case(bench):
        source, target = str(content(bench.work / "source", bench.options.size)), bench.work / "target"

        def measure(meter):
            with open(target if into_file else "/dev/null", "wb") as out:
                named = [] if before else [source]
                feed = before and [*before, source]
                return pipeline(bench, feed, [*meter, "-f", "-i", "0.1", *words, *named], after, out)

        bench.compare(f"{title}, {bench.options.size} bytes", measure, aim)
        target.unlink(missing_ok=True)

    return case


def text_file(path, size):
    line = b"the quick brown fox jumps over the lazy dog, and then once more\n"
    path.write_bytes(line * (size // len(line)))
    return path


def start(bench):
    def copied(name, argv):
        copy = bench.work / f"start-{name}"
        copy.write_bytes(Path(shutil.which(argv[0]) or argv[0]).read_bytes())
        copy.chmod(0o755)
        return [str(copy), *argv[1:]]

    def measure(meter):
        with open("/dev/null", "wb") as null:
            began, used = time.perf_counter(), 0
            for _ in range(STARTS):
                used += finished(bench.start([*meter, "/dev/null"], stdin=subprocess.DEVNULL, stdout=null))
            return (time.perf_counter() - began) / STARTS, used / STARTS

    contenders = {name: copied(name, argv) for name, argv in bench.meters.items()}
    bench.compare("start: X /dev/null", measure, 1 / 1.1, contenders)


def limit(bench):
    """The rate as a reader sees it: over all, and in each window of 100 ms behind the first."""
    print(f"\n## limit: X -q -L {LIMIT_BYTES} from /dev/zero for {LIMIT_SECONDS} s\n| contender | rate / limit | worst window |\n|---|---|---|")
    for name, meter in bench.meters.items():
        with open("/dev/zero", "rb") as source:
            child = bench.start([*meter, "-q", "-L", str(LIMIT_BYTES)], stdin=source, stdout=subprocess.PIPE)
        fd, windows = child.stdout.fileno(), {}
        os.read(fd, 1 << 20)
        began, total = time.perf_counter(), 0
        while (now := time.perf_counter() - began) < LIMIT_SECONDS:
            count = len(os.read(fd, 1 << 20))
            total += count
            windows[int(now / WINDOW_SECONDS)] = windows.get(int(now / WINDOW_SECONDS), 0) + count
        child.stdout.close()
        child.kill()
        child.wait()
        whole = [windows.get(index, 0) / (LIMIT_BYTES * WINDOW_SECONDS) for index in range(1, int(LIMIT_SECONDS / WINDOW_SECONDS))]
        worst = max(whole, key=lambda part: abs(part - 1))
        print(f"| {name} | {total / LIMIT_BYTES / LIMIT_SECONDS:.4f} | {worst:.3f} |", flush=True)
    print("- aims: within 0.01 of 1 over all, within 0.1 in every window", flush=True)


CASES = {
    "zeros": zeros,
    "file-null": file_case("X FILE >/dev/null", 1.2),
    "file-cat": file_case("X FILE | cat >/dev/null", 1.2, after=["cat"]),
    "to-file": file_case("cat FILE | X >FILE2", 1.2, before=["cat"], into_file=True),
    "lines": file_case("lines: X -l FILE >/dev/null", 2.0, words=["-l"], content=text_file),
    "start": start,
    "limit": limit,
}


if __name__ == "__main__":
    main()
