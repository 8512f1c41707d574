#!/usr/bin/env python3
"""gush cp on a file system that waits: its own number of threads, the best fixed one, and cp.

    unshare --mount bench/slow.py [--rounds N] [--gush PATH] [--delays US,...] [--case NAME]

As root; the file system (crates/gush-test/examples/slow.rs) is mounted in the namespace of the script. Aim:
within 1.10 of the best of --threads 1, 2, 4, ... 64. Medians; cp runs once.
"""
import argparse
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from shared import build, interleaved, print_machine, ratios

FIXED = [1, 2, 4, 8, 16, 32, 64]
# Name, files, bytes of each, options; with options the target is a copy made before.
CASES = [
    ("1,000 files of 4 KiB", 1000, 4096, []),
    ("compared by --checksum", 1000, 4096, ["--checksum"]),
    ("read again by --verify", 1000, 4096, ["--verify"]),
    ("mirrored by --delete", 1000, 4096, ["--update=changed", "--delete"]),
    ("one rank of one", 1000, 4096, ["--shard", "0/1"]),
    ("one file of 16 MiB", 1, 16 << 20, []),
    ("one file of 512 MiB", 1, 512 << 20, []),
]


def timed(argv, target, is_there=False):
    if not is_there:
        subprocess.run(["rm", "-rf", target], check=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*argv, target], check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(slow, gush, case, delay, rounds, work):
    name, files, size, options = case
    point, target = work / "slow", str(work / "copy")
    point.mkdir(exist_ok=True)
    server = subprocess.Popen([slow, point, str(files), str(size), str(delay)], stdout=subprocess.DEVNULL)
    while not os.path.ismount(point):
        time.sleep(0.01)
    source = [str(point / "f0")] if files == 1 else ["-r", "-T", str(point)]
    # Few threads take many seconds where each request waits for a millisecond, and are never the best.
    fixed = [n for n in FIXED if delay < 1000 or n >= 16]
    contenders = {"gush cp": [gush, "cp", *options, *source]}
    contenders |= {f"--threads {n}": [gush, "cp", "--threads", str(n), *options, *source] for n in fixed}
    if options:
        timed([gush, "cp", *source], target)
    samples = interleaved(contenders, rounds, lambda argv: timed(argv, target, bool(options)))
    cp, _ = timed(["cp", *source], target)
    subprocess.run(["umount", str(point)], check=True)
    server.wait()
    walls = {label: [wall for wall, _ in sample] for label, sample in samples.items()}
    busy = sorted(busy for _, busy in samples["gush cp"])[rounds // 2]
    to_own = {label: ratios(wall, walls["gush cp"])[0] for label, wall in walls.items()}
    best = min((label for label in to_own if label.startswith("--")), key=to_own.get)
    own = sorted(walls["gush cp"])[rounds // 2]
    print(f"{delay / 1000:5} ms  {name:20}  gush cp {own:7.3f} s, busy {busy:.3f} s"
          f"   to {best} {1 / to_own[best]:.2f}   to cp {own / cp:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gush", default="", help="the binary; built from this checkout without it")
    parser.add_argument("--delays", default="0,200,1000,10000", help="microseconds")
    parser.add_argument("--case", default="", help="those whose names have this")
    arguments = parser.parse_args()
    slow = build("-p", "gush-test", "--example", "slow", binary="examples/slow")
    gush = arguments.gush or build()
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    print_machine(["cp"])
    with tempfile.TemporaryDirectory() as work:
        for case in CASES:
            if arguments.case not in case[0]:
                continue
            for delay in arguments.delays.split(","):
                measure(slow, gush, case, int(delay), arguments.rounds, Path(work))


if __name__ == "__main__":
    main()
