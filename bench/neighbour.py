#!/usr/bin/env python3
"""What copies do to a neighbour that reads a file in the cache of the same memory cgroup.

    bench/neighbour.py [--gush PATH] [--dir DIR] [--size MIB] [--sum MIB] [--ways NAME; ...]

As root, with a memory cgroup (v1 or v2). The cgroup may have 256 MiB. In it a neighbour reads random pages of a warm
file of 64 MiB, with half a millisecond between two; next to it a file of --size is copied, --sum in all each way.
Printed for each way of copying: its speed relative to the first, the neighbour's p50 and p99 relative to that without
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
from shutil import which

from shared import MIB, build, interleaved, noise_file, print_machine, ratios

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


def read_pages(warm, stop):
    """Latencies of reads of a page, in microseconds, until `stop` is there."""
    file, latencies = os.open(warm, os.O_RDONLY), []
    while not stop.exists():
        at = random.randrange(WARM // 4096) * 4096
        began = time.perf_counter_ns()
        os.pread(file, 4096, at)
        latencies.append((time.perf_counter_ns() - began) / 1000)
        time.sleep(PAUSE)
    os.close(file)
    return latencies


def with_neighbour(group, warm, work, act):
    """Calls `act` next to a neighbour in the group; returns its result and the neighbour's latencies."""
    stop, result = Path(work) / "stop", Path(work) / "latencies"
    dropped(warm)
    child = os.fork()
    if child == 0:
        group.enter()
        with open(warm, "rb") as file:
            while file.read(MIB):
                pass
        result.write_text("\n".join(map(str, read_pages(warm, stop))))
        os._exit(0)
    time.sleep(1)
    done = act()
    stop.touch()
    os.waitpid(child, 0)
    stop.unlink()
    return done, [float(line) for line in result.read_text().split()]


def share(latencies, of_all):
    return sorted(latencies)[int(of_all * (len(latencies) - 1))]


def cached(path):
    said = subprocess.run(["fincore", "-bno", "RES", path], capture_output=True, text=True, check=True).stdout
    return int(said) / os.path.getsize(path)


def dropped(path):
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def copied(group, argv, source, target, warm):
    """Copies once; returns the seconds, the most bytes not yet on the disk, and what stays of the warm file."""
    Path(target).unlink(missing_ok=True)
    dropped(source)
    began, most = time.monotonic(), 0
    copy = subprocess.Popen([*argv, source, target], preexec_fn=group.enter, stdout=subprocess.DEVNULL)
    while copy.poll() is None:
        most = max(most, group.unwritten())
        time.sleep(0.01)
    # Also what is written later: --no-cache waits for the disk, the others do not.
    subprocess.run(["sync", target], check=True)
    seconds = time.monotonic() - began
    if copy.returncode:
        raise SystemExit(f"{argv}: status {copy.returncode}")
    return seconds, most, cached(warm)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gush", default="", help="the binary; built from this checkout without it")
    parser.add_argument("--dir", default=".", help="on the disk")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--sum", type=int, default=65536)
    parser.add_argument("--ways", default="", help="; between their names; all that are installed without it")
    arguments = parser.parse_args()
    gush = arguments.gush or build()
    print_machine(["cp", "dd", "rsync", "nocache"])
    group = Group()
    try:
        with tempfile.TemporaryDirectory(dir=arguments.dir) as work:
            source = noise_file(f"{work}/source", arguments.size * MIB)
            warm, target = noise_file(f"{work}/warm", WARM), f"{work}/target"
            direct = 'exec dd if="$0" of="$1" bs=1M iflag=direct oflag=direct status=none'
            ways = {"gush cp": [gush, "cp"], "gush cp --no-cache": [gush, "cp", "--no-cache"], "cp": ["cp"],
                    "dd, direct": ["sh", "-c", direct], "rsync": ["rsync"], "nocache cp": ["nocache", "cp"]}
            # Those whose program is there, or those that were asked for.
            asked = arguments.ways.split("; ") if arguments.ways else [name for name in ways if which(ways[name][0])]
            ways = {name: ways[name] for name in asked}
            _, alone = with_neighbour(group, warm, work, lambda: time.sleep(10))
            kills = group.kills()

            def measure(argv):
                return with_neighbour(group, warm, work, lambda: copied(group, argv, source, target, warm))

            samples = interleaved(ways, -(-arguments.sum // arguments.size), measure)
            seconds = {name: [done[0] for done, _ in sample] for name, sample in samples.items()}
            for name, sample in samples.items():
                speed = ratios(seconds[next(iter(ways))], seconds[name])[0]
                beside = [latency for _, latencies in sample for latency in latencies]
                p50, p99 = (share(beside, at) / share(alone, at) for at in (0.5, 0.99))
                print(f"{name:20} speed {speed:.2f}   p50 {p50:5.2f}   p99 {p99:6.2f}"
                      f"   cached {min(done[2] for done, _ in sample):.2f}"
                      f"   unwritten {max(done[1] for done, _ in sample) / MIB:4.0f} MiB")
            print(f"kills {group.kills() - kills}")
    finally:
        group.path.rmdir()


if __name__ == "__main__":
    main()
