#!/usr/bin/env python3
"""What copies do to a neighbour that reads a file in the cache of the same memory cgroup.

    bench/neighbour.py [--gush PATH] [--dir DIR] [--size MIB] [--sum MIB]

As root, with a memory cgroup (v1 or v2). The cgroup may have 256 MiB. In it a neighbour reads random pages of a warm
file of 64 MiB, with half a millisecond between two; next to it a file of --size is copied until --sum is reached.
Printed for each way of copying: its speed relative to gush cp, the neighbour's p50 and p99 relative to that without
a copy, the share of the warm file that stays cached, the most dirty and written-back memory, and kills for memory.
Aims: no kill; with --no-cache p99 within 1.10 and a speed of 0.90 at least.
"""
import argparse
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

from shared import MIB, build, noise_file, print_machine

LIMIT, WARM, PAUSE = 256 * MIB, 64 * MIB, 0.0005
V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


class Group:
    """A memory cgroup for this script's children."""

    def __init__(self):
        self.is_v1 = V1.is_dir()
        self.path = (V1 if self.is_v1 else V2) / f"gush-neighbour-{os.getpid()}"
        if not self.is_v1:
            (V2 / "cgroup.subtree_control").write_text("+memory")
        self.path.mkdir()
        (self.path / ("memory.limit_in_bytes" if self.is_v1 else "memory.max")).write_text(str(LIMIT))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def fields(self, name):
        lines = [line.split() for line in (self.path / name).read_text().splitlines()]
        return {line[0]: int(line[1]) for line in lines}

    def unwritten(self):
        stat = self.fields("memory.stat")
        return stat.get("dirty", stat.get("file_dirty", 0)) + stat.get("writeback", stat.get("file_writeback", 0))

    def kills(self):
        return self.fields("memory.oom_control" if self.is_v1 else "memory.events")["oom_kill"]


def neighbour(warm, seconds, stop):
    """Latencies of reads of a page, in microseconds; ends after some time or when `stop` is there."""
    file, latencies = os.open(warm, os.O_RDONLY), []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (stop and stop.exists()):
        at = random.randrange(WARM // 4096) * 4096
        began = time.perf_counter_ns()
        os.pread(file, 4096, at)
        latencies.append((time.perf_counter_ns() - began) / 1000)
        time.sleep(PAUSE)
    os.close(file)
    return sorted(latencies)


def watched(group, warm, work, stop):
    """Starts the neighbour in the group; returns a function that waits for its p50 and p99."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        group.enter()
        with open(warm, "rb") as file:
            while file.read(MIB):
                pass
        latencies = neighbour(warm, 5 if stop is None else 3600, stop)
        at = [latencies[int(share * (len(latencies) - 1))] for share in (0.5, 0.99)]
        os.write(write, " ".join(map(str, at)).encode())
        os._exit(0)
    os.close(write)

    def result():
        os.waitpid(child, 0)
        said = os.read(read, 100).decode().split()
        os.close(read)
        return [float(word) for word in said]

    return result


def cached(path):
    said = subprocess.run(["fincore", "-bno", "RES", path], capture_output=True, text=True, check=True).stdout
    return int(said) / os.path.getsize(path)


def dropped(path):
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def copied(group, argv, source, target, total):
    """Copies until so many bytes are copied; returns the seconds, and the most bytes not yet on the disk."""
    seconds, most, done = 0.0, 0, 0
    while done < total:
        Path(target).unlink(missing_ok=True)
        dropped(source)
        began = time.monotonic()
        copy = subprocess.Popen([*argv, source, target], preexec_fn=group.enter, stdout=subprocess.DEVNULL)
        while copy.poll() is None:
            most = max(most, group.unwritten())
            time.sleep(0.01)
        # Also what is written later: --no-cache waits for the disk, the others do not.
        subprocess.run(["sync", target], check=True)
        seconds += time.monotonic() - began
        done += os.path.getsize(source)
        if copy.returncode:
            raise SystemExit(f"{argv}: status {copy.returncode}")
    return seconds, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gush", default="", help="the binary; built from this checkout without it")
    parser.add_argument("--dir", default=".", help="on the disk")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--sum", type=int, default=65536)
    arguments = parser.parse_args()
    gush = arguments.gush or build()
    print_machine(["cp"])
    group = Group()
    try:
        with tempfile.TemporaryDirectory(dir=arguments.dir) as work:
            source = noise_file(f"{work}/source", arguments.size * MIB)
            warm, target, stop = noise_file(f"{work}/warm", WARM), f"{work}/target", Path(work) / "stop"
            ways = {"gush cp": [gush, "cp"], "gush cp --no-cache": [gush, "cp", "--no-cache"], "cp": ["cp"]}
            first = None
            for name, argv in ways.items():
                dropped(warm)
                alone = watched(group, warm, work, None)()
                beside = watched(group, warm, work, stop)
                time.sleep(1)
                kills = group.kills()
                seconds, unwritten = copied(group, argv, source, target, arguments.sum * MIB)
                stays = cached(warm)
                stop.touch()
                p50, p99 = (now / before for now, before in zip(beside(), alone))
                stop.unlink()
                first = first or seconds
                print(f"{name:20} {arguments.sum / seconds:6.0f} MiB/s ({first / seconds:.2f})   p50 {p50:5.2f}   p99 {p99:6.2f}"
                      f"   cached {stays:.2f}   unwritten {unwritten / MIB:4.0f} MiB   kills {group.kills() - kills}", flush=True)
    finally:
        group.path.rmdir()


if __name__ == "__main__":
    main()
