#!/usr/bin/env python3
"""A tree to another machine, compared with rsync and tar over the same ssh.

    bench/wire.py GUSH [--rtt MS] [--rate MIB] [--files N] [--bytes N] [--rounds N] [--dir DIR]

sshd of OpenSSH runs as root with keys of its own in DIR, once for each connection (sshd -i). Between
ssh and sshd stands this script (--line), which holds each byte back for half of the round trip and
passes so many MiB a second: no network, and no tc-netem(8), which many kernels lack. What is under
way is bounded by rate times round trip and 4 MiB, as by TCP's window. Prints medians and quartiles of
the time relative to rsync. Each copy is compared with the source by diff -r once.
"""
import argparse
import collections
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time


def line(rtt, rate, command):
    """Standard input and output of `command`, held back and slowed down."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    most = int(rate * rtt) + (4 << 20)

    def carry(source, target):
        queue, changed, held, ended = collections.deque(), threading.Condition(), [0], [False]

        def deliver():
            while True:
                with changed:
                    changed.wait_for(lambda: queue or ended[0])
                    if not queue:
                        break
                    due, data = queue.popleft()
                time.sleep(max(0, due - time.monotonic()))
                left = data
                try:
                    while left:
                        left = left[os.write(target, left) :]
                except OSError:
                    os._exit(0)
                with changed:
                    held[0] -= len(data)
                    changed.notify_all()
            os.close(target)

        thread = threading.Thread(target=deliver)
        thread.start()
        free_at = 0.0
        while data := os.read(source, 65536):
            with changed:
                changed.wait_for(lambda: held[0] < most)
                free_at = max(free_at, time.monotonic()) + len(data) / rate
                held[0] += len(data)
                queue.append((free_at + rtt / 2, data))
                changed.notify_all()
        with changed:
            ended[0] = True
            changed.notify_all()
        thread.join()

    there = threading.Thread(target=carry, args=(0, child.stdin.fileno()), daemon=True)
    there.start()
    carry(child.stdout.fileno(), 1)
    child.wait()
    os._exit(child.returncode)


def keys(place):
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", f"{place}/{name}"], check=True)
    os.makedirs("/run/sshd", exist_ok=True)


def ssh(place, options):
    server = f"/usr/sbin/sshd -i -f /dev/null -o HostKey={place}/host -o UsePAM=no -o StrictModes=no"
    server += f" -o AuthorizedKeysFile={place}/user.pub"
    proxy = f"{os.path.abspath(__file__)} --line {options.rtt} {options.rate} {server}"
    with open(f"{place}/ssh", "w") as script:
        script.write(
            f"#!/bin/sh\nexec ssh -F none -i {place}/user -o StrictHostKeyChecking=no -o LogLevel=ERROR"
            f" -o UserKnownHostsFile={place}/known -o 'ProxyCommand={proxy}' \"$@\"\n"
        )
    os.chmod(f"{place}/ssh", 0o700)
    return f"{place}/ssh"


def make(tree, files, size):
    block = os.urandom(min(size, 1 << 20))
    for number in range(files):
        if number % 100 == 0:
            folder = f"{tree}/{number // 100}"
            os.makedirs(folder)
        with open(f"{folder}/{number}", "wb") as file:
            left = size
            while left > 0:
                left -= file.write(block[: min(left, len(block))])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("gush")
    options.add_argument("--rtt", type=float, default=50, help="milliseconds")
    options.add_argument("--rate", type=float, default=119, help="MiB/s; 119 are 1 Gbit/s")
    options.add_argument("--files", type=int, default=10_000)
    options.add_argument("--bytes", type=int, default=4096, help="of each file")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dir", default="/dev/shm")
    options = options.parse_args()
    gush = os.path.abspath(options.gush)
    with tempfile.TemporaryDirectory(dir=options.dir) as place:
        keys(place)
        rsh = ssh(place, options)
        make(f"{place}/tree", options.files, options.bytes)
        ways = {
            "rsync -a": ["rsync", "-a", "-e", rsh, f"{place}/tree/", f"root@h:{place}/copy"],
            "gush cp -a": [gush, "cp", "-a", "--rsh", rsh, "--remote-gush", gush]
            + [f"{place}/tree", f"root@h:{place}/copy"],
            "tar | ssh tar": [
                "sh", "-c",
                f"tar cf - -C {place}/tree . | {rsh} root@h 'mkdir {place}/copy && tar xf - -C {place}/copy'",
            ],
        }
        times = {name: [] for name in ways}
        for round in range(options.rounds):
            for name in random.sample(list(ways), len(ways)):
                shutil.rmtree(f"{place}/copy", ignore_errors=True)
                begun = time.monotonic()
                done = subprocess.run(ways[name], capture_output=True, text=True)
                times[name].append(time.monotonic() - begun)
                if done.returncode:
                    sys.exit(f"{name}: status {done.returncode}: {done.stderr}")
                if round == 0:
                    subprocess.run(["diff", "-r", f"{place}/tree", f"{place}/copy"], check=True)
        for name, own in times.items():
            ratios = sorted(one / other for one, other in zip(own, times["rsync -a"]))
            quartiles = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
            print(
                f"{name}: {statistics.median(own):.2f} s, {statistics.median(ratios):.2f}"
                f" ({quartiles[0]:.2f} to {quartiles[1]:.2f}) of rsync's"
            )
        total = options.files * options.bytes
        print(f"the line alone takes {total / (options.rate * 2**20):.2f} s")


if sys.argv[1:2] == ["--line"]:
    line(float(sys.argv[2]) / 1000, float(sys.argv[3]) * 2**20, sys.argv[4:])
main()
