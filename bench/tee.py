#!/usr/bin/env python3
"""gush tee and gush yes beside GNU's and uutils': ratios in one interleaved run.

    bench/tee.py [--rounds N] [--size BYTES] [--dir DIR] [--only NAME,...] [--realtime]
                 [--gush PATH] [--uutils-tee PATH] [--uutils-yes PATH]

Cases: two, four, eight (a file to so many consumers, all of them GNU cat >/dev/null, which reads), spliced (to
two bare loops that splice), files (a pipe to a file and to /dev/null), yes-read and yes-spliced (one pattern
into GNU head, which reads, and into a bare loop that splices).

Every round runs each contender of a case once, in shuffled order; what is printed is the median of each, and
the ratio of its time to that of gush within the same round: above 1, gush is so many times as fast. Processor
seconds are those of the program alone. --realtime runs all programs of a case by chrt -f 10, which pushes other
work aside. Without PATHs the crates uu_tee and uu_yes are built by `cargo install` below target/.
"""
import os
import subprocess
import tempfile
import time
from pathlib import Path

from shared import ROOT, build, build_bare, compare, finished, first_line, noise_file, print_machine, read_options, started

UUTILS = "0.12.0"


def main():
    peers = [("uutils-tee", "", "uutils' tee; built without it"), ("uutils-yes", "", "uutils' yes; built without it")]
    options = read_options(__doc__, CASES, "bytes that a case moves; yes-spliced moves 16 times as many", peers)
    gush = options.gush or build()
    uutils = {name: getattr(options, f"uutils_{name}") or build_uutils(name) for name in ("tee", "yes")}
    with tempfile.TemporaryDirectory(prefix="gush-bench-", dir=options.dir) as work:
        bench = Bench(gush, uutils, Path(work), options)
        print_machine([first_line([uutils["tee"], "--version"]), first_line(["tee", "--version"])])
        for name in options.wanted:
            CASES[name](bench)


def build_uutils(name):
    root = ROOT / "target" / f"uu_{name}-{UUTILS}"
    if not (root / "bin" / name).exists():
        subprocess.run(["cargo", "install", "--quiet", "--root", str(root), f"uu_{name}@{UUTILS}"], check=True)
    return str(root / "bin" / name)


class Bench:
    def __init__(self, gush, uutils, work, options):
        self.work, self.options = work, options
        self.bare = build_bare(work)
        self.programs = {
            name: {"gush": [gush, name], "GNU": [name], "uutils": [uutils[name]]} for name in ("tee", "yes")
        }

    def start(self, argv, **how):
        return started(argv, self.options, **how)

    def compare(self, title, name, measure, aims):
        compare(title, self.programs[name], self.options.rounds, measure, aims)


def fan_out(number, consumer):
    def case(bench):
        source = noise_file(bench.work / "source", bench.options.size)
        argv = [bench.bare, "cat"] if consumer == "splices" else ["cat"]

        def measure(tee):
            with open("/dev/null", "wb") as null, open(source, "rb") as file:
                pipes = [os.pipe() for _ in range(number)]
                consumers = [bench.start(argv, stdin=reader, stdout=null) for reader, _ in pipes]
                for reader, _ in pipes:
                    os.close(reader)
                writers = [writer for _, writer in pipes]
                names = [f"/dev/fd/{writer}" for writer in writers]
                began = time.perf_counter()
                child = bench.start([*tee, *names], stdin=file, stdout=null, pass_fds=writers)
                for writer in writers:
                    os.close(writer)
                used = finished(child)
                for each in consumers:
                    each.wait()
                assert child.returncode == 0, tee
                return time.perf_counter() - began, used

        aims = {2: {"GNU": 2.5, "uutils": 1.1}}.get(number, {"uutils": 1.1}) if consumer == "reads" else {}
        title = f"a file of {bench.options.size} bytes to {number} consumers; each {consumer}"
        bench.compare(title, "tee", measure, aims)

    return case


def files(bench):
    source = noise_file(bench.work / "source", bench.options.size)
    target = bench.work / "target"

    def measure(tee):
        target.unlink(missing_ok=True)
        with open("/dev/null", "wb") as null:
            began = time.perf_counter()
            feeder = bench.start([bench.bare, "cat", source], stdout=subprocess.PIPE)
            child = bench.start([*tee, str(target)], stdin=feeder.stdout, stdout=null)
            feeder.stdout.close()
            used = finished(child)
            feeder.wait()
            seconds = time.perf_counter() - began
        assert child.returncode == 0 and target.stat().st_size == bench.options.size, tee
        return seconds, used

    bench.compare("a pipe to a file and /dev/null", "tee", measure, {"uutils": 1.0})
    target.unlink(missing_ok=True)


def filling(how, times, aims):
    def case(bench):
        size = bench.options.size * times
        argv = [bench.bare, "cat-bytes", str(size)] if how == "splices" else ["head", "-c", str(size)]

        def measure(program):
            with open("/dev/null", "wb") as null:
                began = time.perf_counter()
                child = bench.start(program, stdout=subprocess.PIPE)
                reader = bench.start(argv, stdin=child.stdout, stdout=null)
                child.stdout.close()
                reader.wait()
                seconds = time.perf_counter() - began
                return seconds, finished(child)

        bench.compare(f"yes: {size} bytes into a reader that {how}", "yes", measure, aims)

    return case


CASES = {
    "two": fan_out(2, "reads"),
    "four": fan_out(4, "reads"),
    "eight": fan_out(8, "reads"),
    "spliced": fan_out(2, "splices"),
    "files": files,
    "yes-read": filling("reads", 4, {"uutils": 1.2}),
    "yes-spliced": filling("splices", 16, {"uutils": 2.0}),
}


if __name__ == "__main__":
    main()
