#!/usr/bin/env python3
"""gush cp and gush cat beside GNU cp and cat: ratios in one interleaved run.

    bench/copy.py [--rounds N] [--size BYTES] [--dir DIR] [--only NAME,...] [--gush PATH]
                  [--also NAME=PROGRAM]

Every round runs each contender of a case once, in shuffled order, as a whole process, into a file
that does not exist yet; what is printed is the median of each, and the median and the quartiles of
the ratio to the first contender within the same round. Cases that need root (xfs and btrfs on loop
devices) or strace say so when they are left out.
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

from shared import MIB, build, first_line, interleaved, noise_file, print_machine, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of the large file")
    parser.add_argument("--dir", default=".", help="a directory on the file system to measure (ext4)")
    parser.add_argument("--only", default="", help="cases, by name")
    parser.add_argument("--gush", default="", help="the binary; built from this checkout without it")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=PROGRAM",
                        help="one more gush, such as the one before a change")
    options = parser.parse_args()
    gush = options.gush or build()
    wanted = [name for name in options.only.split(",") if name]
    unknown = set(wanted) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    print_machine([first_line(["cp", "--version"])])
    with tempfile.TemporaryDirectory(prefix="gush-bench-", dir=options.dir) as work:
        for name, case in CASES.items():
            if not wanted or name in wanted:
                case(Bench(name, gush, Path(work), options))


class Bench:
    def __init__(self, name, gush, work, options):
        self.name, self.gush, self.work, self.options = name, gush, work, options
        self.binaries = {"gush": gush} | dict(also.split("=", 1) for also in options.also)

    def skip(self, why):
        print(f"\n## {self.name}\nSKIPPED: {why}", flush=True)

    def source(self, directory, size):
        return noise_file(Path(directory) / f"source-{size}", size)

    def compare(self, contenders, prepare=lambda: None, repeat=1, rounds=None):
        """Runs {label: argv or shell text} in rounds; prints medians and ratios to the first."""
        print(f"\n## {self.name}")

        def measure(command):
            prepare()
            began = time.perf_counter()
            for _ in range(repeat):
                run(command)
            return (time.perf_counter() - began) / repeat

        times = interleaved(contenders, rounds or self.options.rounds, measure)
        base = next(iter(contenders))
        print("| contender | median | min | ratio (median) | quartiles |\n|---|---|---|---|---|")
        for label, samples in times.items():
            middle, low, high = ratios(samples, times[base])
            print(
                f"| {label} | {statistics.median(samples) * 1e3:.2f} ms | {min(samples) * 1e3:.2f} ms "
                f"| {middle:.3f} | {low:.3f} to {high:.3f} |",
                flush=True,
            )


def run(command):
    if isinstance(command, str):
        subprocess.run(["bash", "-c", command], check=True)
    else:
        subprocess.run(command, check=True)


def removing(target):
    def prepare():
        try:
            os.unlink(target)
        except FileNotFoundError:
            pass
    return prepare


def large_file(bench, directory):
    source = bench.source(directory, bench.options.size)
    target = str(Path(directory) / "target")
    contenders = {"GNU cp": ["cp", source, target]}
    for name, program in bench.binaries.items():
        contenders[f"{name} cp"] = [program, "cp", source, target]
        contenders[f"{name} cp --threads 1"] = [program, "cp", "--threads", "1", source, target]
    bench.compare(contenders, removing(target))
    same = subprocess.run(["cmp", "-s", source, target]).returncode == 0
    print("last target is identical" if same else "LAST TARGET DIFFERS")
    removing(target)()


def ext4(bench):
    large_file(bench, bench.work)


def tmpfs(bench):
    with tempfile.TemporaryDirectory(prefix="gush-bench-", dir="/dev/shm") as directory:
        large_file(bench, directory)


def small(bench):
    source = bench.source(bench.work, 4096)
    target = str(bench.work / "small")
    contenders = {"GNU cp": ["cp", source, target]}
    for name, program in bench.binaries.items():
        contenders[f"{name} cp"] = [program, "cp", source, target]
    bench.compare(contenders, removing(target), repeat=40)


def every_method(bench):
    source = bench.source(bench.work, bench.options.size)
    target = str(bench.work / "target")
    names = "copy-file-range sendfile splice vmsplice mmap-write mmap-copy read-mmap read-write direct uring"
    contenders = {"GNU cp": ["cp", source, target]}
    for name in names.split():
        for label, program in bench.binaries.items():
            shown = name if label == "gush" else f"{name}, {label}"
            contenders[shown] = [program, "cp", "--method", name, "--threads", "1", source, target]
    for name in ("read-mmap", "read-write", "mmap-copy", "direct"):
        contenders[f"{name}, 2 threads"] = [bench.gush, "cp", "--method", name, "--threads", "2", source, target]
    bench.compare(contenders, removing(target), rounds=5)


def clone(kind):
    def case(bench):
        if os.geteuid() != 0:
            return bench.skip("loop mounts need root")
        if not shutil.which(f"mkfs.{kind}"):
            return bench.skip(f"mkfs.{kind} is not installed")
        image, mount = bench.work / f"{kind}.img", bench.work / kind
        mount.mkdir()
        with open(image, "wb") as file:
            file.truncate(3 << 30)
        subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
        try:
            source = bench.source(mount, bench.options.size)
            target = str(mount / "target")
            command = [bench.gush, "cp", "--reflink=always", source, target]
            contenders = {"GNU cp": ["cp", "--reflink=always", source, target], "gush cp": command}
            bench.compare(contenders, removing(target))
            removing(target)()
            subprocess.run(["sync"], check=True)
            free_before = shutil.disk_usage(mount).free
            subprocess.run(command, check=True)
            subprocess.run(["sync"], check=True)
            taken = free_before - shutil.disk_usage(mount).free
            print(f"space that a clone of {bench.options.size >> 20} MiB takes: {taken / MIB:.2f} MiB")
        finally:
            subprocess.run(["umount", str(mount)], check=False)
            image.unlink()
    return case


def cat_pipe(bench):
    source = bench.source(bench.work, bench.options.size)
    contenders = {"GNU cat": f"cat {source} | cat >/dev/null"}
    for name, program in bench.binaries.items():
        contenders[f"{name} cat"] = f"{program} cat {source} | cat >/dev/null"
        contenders[f"{name} cat, both"] = f"{program} cat {source} | {program} cat >/dev/null"
    bench.compare(contenders)


def memory(bench):
    source = bench.source(bench.work, bench.options.size)
    target = str(bench.work / "target")
    print(f"\n## {bench.name}\n| method | threads | peak anonymous memory |\n|---|---|---|")
    names = "auto copy-file-range sendfile splice vmsplice mmap-write mmap-copy read-mmap read-write direct uring"
    for name in names.split():
        for threads in ("1", "2"):
            removing(target)()
            command = [bench.gush, "cp", "--method", name, "--threads", threads, source, target]
            print(f"| {name} | {threads} | {peak_anonymous(command) / 1024:.2f} MiB |", flush=True)


def peak_anonymous(command):
    child = subprocess.Popen(command)
    peak = 0
    while child.poll() is None:
        try:
            for line in open(f"/proc/{child.pid}/status"):
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]))
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.002)
    return peak


TABLE = [
    # label, options, system calls to count
    ("read/write 1024", "--method read-write --buffer-size 1024", "read write"),
    ("read/write 4096", "--method read-write --buffer-size 4096", "read write"),
    ("read/write 65536", "--method read-write --buffer-size 65536", "read write"),
    ("read/write 131072", "--method read-write --buffer-size 131072", "read write"),
    ("sendfile 4096", "--method sendfile --buffer-size 4096", "sendfile"),
    ("mmap both + memcpy", "--method mmap-copy", "mmap munmap read write"),
    ("splice through a pipe, 4096", "--method splice --buffer-size 4096", "splice"),
    ("splice through a pipe of 64 KiB", "--method splice --pipe-size 65536", "splice"),
    ("copy_file_range", "--method copy-file-range", "copy_file_range"),
]


def calls(bench):
    """The system calls on a 512 MiB file, of the whole process as strace counts them."""
    if not shutil.which("strace"):
        return bench.skip("strace is not installed")
    source = bench.source(bench.work, 512 * MIB)
    target = str(bench.work / "target")
    print(f"\n## {bench.name}\n| way | calls on the two files | all calls of the process |\n|---|---|---|")
    for label, words, names in TABLE:
        counted = []
        for only in (["-P", source, "-P", target], []):
            removing(target)()
            command = ["strace", "-f", "-c", *only, "-o", str(bench.work / "counts"), bench.gush, "cp"]
            command += ["--threads", "1", *words.split(), source, target]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            counted.append(strace_counts(bench.work / "counts"))
        on_files = ", ".join(f"{counted[0].get(name, 0)} {name}" for name in names.split())
        everything = ", ".join(f"{counted[1].get(name, 0)} {name}" for name in names.split())
        print(f"| {label} | {on_files} | {everything}; {sum(counted[1].values())} in all |", flush=True)


def strace_counts(path):
    counts = {}
    for line in open(path):
        words = line.split()
        if len(words) >= 5 and words[0].replace(".", "").isdigit() and words[-1] != "total":
            counts[words[-1]] = int(words[3])
    return counts


CASES = {
    "ext4": ext4,
    "tmpfs": tmpfs,
    "4KiB": small,
    "xfs-clone": clone("xfs"),
    "btrfs-clone": clone("btrfs"),
    "cat": cat_pipe,
    "memory": memory,
    "calls": calls,
    "methods": every_method,
}

if __name__ == "__main__":
    sys.exit(main())
