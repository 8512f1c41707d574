#!/usr/bin/env python3
"""gush cat between programs, beside uutils' cat and bare splice loops: ratios in one interleaved run.

    bench/cat.py [--rounds N] [--size BYTES] [--dir DIR] [--only NAME,...] [--quiet SECONDS]
                 [--gush PATH] [--uutils PATH] [--also NAME=PROGRAM]

Cases: pair (A FILE | B >/dev/null for A and B of uutils, gush and a bare loop), three (A FILE | A | A),
counted (A FILE | wc -c), read (A FILE | GNU cat), shapes (the bare loop waiting in the call, in poll(2),
through a pipe of its own, and in calls of a quarter of the pipe), start (A /dev/null, A a copy below target/).

Every round runs each contender of a case once, in shuffled order; what is printed is the median of each, the
ratio to the first contender within the same round, and under each table what is aimed at. Beside the time
stand the processor seconds and the context switches of all programs of a pipeline, as getrusage(2) counts
them: they say more than the time on a machine that is not quiet. --uutils is the program `cat` of the crate
uu_cat; without it that version is built by `cargo install` below target/. The bare loops are bare.c.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared import ROOT, Quiet, build, build_bare, first_line, interleaved, noise_file, print_machine, ratios

UUTILS = "0.12.0"
# How often the start of a program is repeated in one sample.
STARTS = 40


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of the file")
    parser.add_argument("--dir", default=".", help="where the file is made")
    parser.add_argument("--only", default="", help="cases, by name")
    parser.add_argument("--gush", default="", help="the binary; built from this checkout without it")
    parser.add_argument("--uutils", default="", help=f"uutils' cat; {UUTILS} is built without it")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=PROGRAM",
                        help="one more gush, such as the one before a change")
    parser.add_argument("--quiet", type=float, default=0, metavar="SECONDS",
                        help="take each sample while nothing else runs, if that comes within so many seconds")
    options = parser.parse_args()
    wanted = [name for name in options.only.split(",") if name] or list(CASES)
    unknown = set(wanted) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    gush = options.gush or build()
    uutils = options.uutils or build_uutils()
    with tempfile.TemporaryDirectory(prefix="gush-bench-", dir=options.dir) as work:
        cats = {"uutils": [uutils], "gush": [gush, "cat"], "bare": [build_bare(work), "cat"]}
        for also in options.also:
            name, program = also.split("=", 1)
            cats[name] = [program, "cat"]
        print_machine([first_line([uutils, "--version"]), first_line(["cat", "--version"])])
        bench = Bench(cats, Path(work), options)
        for name in wanted:
            CASES[name](bench)


def build_uutils():
    root = ROOT / "target" / f"uu_cat-{UUTILS}"
    if not (root / "bin/cat").exists():
        subprocess.run(["cargo", "install", "--quiet", "--root", str(root), f"uu_cat@{UUTILS}"], check=True)
    return str(root / "bin/cat")


class Bench:
    def __init__(self, cats, work, options):
        self.cats, self.work, self.options = cats, work, options

    def file(self):
        return noise_file(self.work / "source", self.options.size)

    def compare(self, title, contenders, aims=(), repeat=1):
        """Runs {label: [argv, ...]}, each a pipeline into /dev/null.

        An aim is (label, peers, most): the label's time is to be at most `most` of the best of the peers'.
        """
        print(f"\n## {title}")
        quiet = Quiet(self.options.quiet)
        rounds = interleaved(contenders, self.options.rounds, quiet.of(lambda stages: Sample.of(stages, repeat)))
        base = next(iter(contenders))
        print("| contender | median | least | ratio | quartiles | processor | switches |\n|---" + "|---" * 6 + "|")
        for label, samples in rounds.items():
            times = [sample.seconds for sample in samples]
            middle, low, high = ratios(times, [sample.seconds for sample in rounds[base]])
            print(
                f"| {label} | {statistics.median(times) * 1e3:.2f} ms | {min(times) * 1e3:.2f} ms | {middle:.3f} "
                f"| {low:.3f} to {high:.3f} | {median(samples, 'cpu_seconds') * 1e3:.2f} ms "
                f"| {median(samples, 'switches'):.0f} |",
                flush=True,
            )
        print()
        if quiet.noisy:
            print(f"- beside other work: {quiet.noisy} of {quiet.samples} samples")
        for label, peers, most in aims:
            best = min(peers, key=lambda peer: median(rounds[peer], "seconds"))
            pairs = [[sample.seconds for sample in rounds[name]] for name in (label, best)]
            ratio = ratios(*pairs)[0]
            print(f"- {label} to {best}: {ratio:.3f}, aim <= {most:.3f}: {'reached' if ratio <= most else 'MISSED'}", flush=True)


def median(samples, field):
    return statistics.median(getattr(sample, field) for sample in samples)


class Sample:
    """One run of a pipeline."""

    def __init__(self):
        self.seconds, self.cpu_seconds, self.switches = 0.0, 0.0, 0

    @classmethod
    def of(cls, stages, repeat):
        sample = cls()
        for _ in range(repeat):
            sample.run(stages)
        for field, value in vars(sample).items():
            setattr(sample, field, value / repeat)
        return sample

    def run(self, stages):
        began = time.perf_counter()
        children, source = [], subprocess.DEVNULL
        for number, argv in enumerate(stages):
            is_last = number + 1 == len(stages)
            child = subprocess.Popen(argv, stdin=source, stdout=subprocess.DEVNULL if is_last else subprocess.PIPE)
            if number > 0:
                source.close()
            source = child.stdout
            children.append(child)
        for child in children:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                sys.exit(f"{child.args[0]} ended with {child.returncode}")
            self.cpu_seconds += used.ru_utime + used.ru_stime
            self.switches += used.ru_nvcsw + used.ru_nivcsw
        self.seconds += time.perf_counter() - began


# As fast as a tenth more than uutils, or as the bare loop within the noise of one run.
def aims_for(label, uutils, bare):
    return [(label, [uutils], 1 / 1.1), (label, [bare], 1.02)]


def pair(bench):
    file = bench.file()
    contenders = {
        f"{a} to {b}": [[*bench.cats[a], file], bench.cats[b]] for a in bench.cats for b in bench.cats
    }
    bench.compare(f"pair: A FILE | B >/dev/null, {bench.options.size} bytes", contenders,
                  aims_for("gush to gush", "uutils to uutils", "bare to bare"))


def three(bench):
    file = bench.file()
    contenders = {name: [[*cat, file], cat, cat] for name, cat in bench.cats.items()}
    bench.compare("three: A FILE | A | A >/dev/null", contenders, aims_for("gush", "uutils", "bare"))


def counted(bench):
    file = bench.file()
    contenders = {name: [[*cat, file], ["wc", "-c"]] for name, cat in bench.cats.items()}
    bench.compare("counted: A FILE | wc -c", contenders, aims_for("gush", "uutils", "bare"))


def read(bench):
    file = bench.file()
    contenders = {name: [[*cat, file], ["cat"]] for name, cat in bench.cats.items()}
    contenders["GNU"] = [["cat", file], ["cat"]]
    bench.compare("read: A FILE | GNU cat >/dev/null", contenders, aims_for("gush", "uutils", "bare"))


def shapes(bench):
    file = bench.file()
    bare = bench.cats["bare"][0]
    names = {"in the call": "cat", "in poll": "cat-polling", "own pipe": "cat-private", "quarters": "cat-quarters"}
    contenders = {
        f"{a} to {b}": [[bare, names[a], file], [bare, names[b]]] for a in names for b in names
    }
    bench.compare("shapes: the bare loop on both sides, by how it waits", contenders)


# A program that the linker wrote lies in the page cache page by page until the cache lets go of it, and each of its page
# faults costs more; on a tmpfs every program lies so. A copy written to the disk lies there as an installed program does.
def start(bench):
    (ROOT / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gush-start-", dir=ROOT / "target") as place:
        compare_starts(bench, Path(place))


def compare_starts(bench, place):
    def copied(name, program):
        copy = place / name
        copy.write_bytes(Path(program).read_bytes())
        copy.chmod(0o755)
        return str(copy)

    contenders = {name: [[copied(name, cat[0]), *cat[1:], "/dev/null"]] for name, cat in bench.cats.items() if name != "bare"}
    if shutil.which("cat"):
        contenders["GNU"] = [["cat", "/dev/null"]]
    bench.compare("start: A /dev/null", contenders, [("gush", ["uutils"], 1.1)], repeat=STARTS)


CASES = {"pair": pair, "three": three, "counted": counted, "read": read, "shapes": shapes, "start": start}

if __name__ == "__main__":
    main()
