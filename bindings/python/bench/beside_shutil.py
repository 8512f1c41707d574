"""Speed compared with shutil: beside_shutil.py [ROUNDS]. Interleaved rounds; the median of each, and the ratio. Lower is faster."""

import io
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import gush

MIB = 1 << 20


def drained(act):
    """Runs act(writing end) while a thread reads the pipe to its end."""
    reading, writing = os.pipe()

    def drain():
        room = bytearray(MIB)
        with open(reading, "rb", buffering=0) as source:
            while source.readinto(room):
                pass

    thread = threading.Thread(target=drain)
    thread.start()
    with open(writing, "wb", buffering=0) as pipe:
        act(pipe)
    thread.join()


def fed(act, block):
    """Runs act(reading end) while a thread fills the pipe."""
    reading, writing = os.pipe()

    def feed():
        with open(writing, "wb", buffering=0) as pipe:
            for _ in range(256):
                pipe.write(block)

    thread = threading.Thread(target=feed)
    thread.start()
    with open(reading, "rb") as source:
        act(source)
    thread.join()


def cases(directory):
    large, many, target = directory / "large", directory / "many", directory / "target"
    block = os.urandom(MIB)
    with open(large, "wb") as out:
        for _ in range(256):
            out.write(block)
    for at in range(20):
        (many / str(at)).mkdir(parents=True)
        for number in range(100):
            (many / str(at) / str(number)).write_bytes(block[: number * 100])

    def into_pipe(copy):
        with open(large, "rb") as source:
            drained(lambda pipe: copy(source, pipe))

    def out_of_pipe(copy):
        with open(target, "wb") as out:
            fed(lambda source: copy(source, out), block)

    def fill(pipe):
        for _ in range(256):
            pipe.write(block)

    def fill_fast(pipe):
        with gush.Writer(pipe) as out:
            fill(out)

    line = b"x" * 61 + b"\n"

    def lines(pipe):
        with io.BufferedWriter(pipe) as out:
            for _ in range(1_000_000):
                out.write(line)

    def lines_fast(pipe):
        with gush.Writer(pipe) as out:
            for _ in range(1_000_000):
                out.write(line)

    small = directory / "small"
    small.write_bytes(block[:4096])

    def repeat(copyfile):
        for _ in range(5000):
            copyfile(small, target)

    yield "copyfile, 256 MiB", lambda: gush.copyfile(large, target), lambda: shutil.copyfile(large, target)
    yield "file into a pipe, 256 MiB", lambda: into_pipe(gush.copy), lambda: into_pipe(shutil.copyfileobj)
    yield "pipe into a file, 256 MiB", lambda: out_of_pipe(gush.copy), lambda: out_of_pipe(shutil.copyfileobj)
    yield "Writer into a pipe, 256 MiB", lambda: drained(fill_fast), lambda: drained(fill)
    yield "Writer, a million lines into a pipe", lambda: drained(lines_fast), lambda: drained(lines)
    yield "copyfile, 4 KiB, 5000 times", lambda: repeat(gush.copyfile), lambda: repeat(shutil.copyfile)
    yield "copytree, 2000 files", lambda: gush.copytree(many, target), lambda: shutil.copytree(many, target)
    yield (
        "shutil.copytree by copy2, 2000 files",
        lambda: shutil.copytree(many, target, copy_function=gush.copy2),
        lambda: shutil.copytree(many, target),
    )


def seconds(act, target):
    if target.is_dir():
        shutil.rmtree(target)
    elif target.exists():
        target.unlink()
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as held:
        directory = Path(held)
        for name, ours, theirs in cases(directory):
            times = [(seconds(ours, directory / "target"), seconds(theirs, directory / "target")) for _ in range(rounds)]
            gush_s, shutil_s = (statistics.median(column) for column in zip(*times))
            print(f"{name:38} gush {gush_s:8.4f} s   shutil {shutil_s:8.4f} s   ratio {gush_s / shutil_s:.2f}")
            if (directory / "target").is_dir():
                shutil.rmtree(directory / "target")


if __name__ == "__main__":
    main()
