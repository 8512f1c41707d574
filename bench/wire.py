#!/usr/bin/env python3
"""A tree to another machine, compared with rsync and tar over the same ssh.

    bench/wire.py GUSH [--rtt MS] [--rate MIB] [--window MIB] [--loss P] [--files N] [--bytes N]
                  [--gush-args=ARGS]... [--ssh-args=ARGS] [--floor N,N...] [--unchanged] [--text]
                  [--rounds N]

sshd of OpenSSH runs with keys of its own in a directory of its own, once for each connection
(sshd -i). Between ssh and sshd stands bench/line.c, which all connections of one copy share: a rate, a
round trip, and a TCP window for each connection. Each --gush-args adds a row. A floor is that many ssh
at once that move as many bytes to `cat >/dev/null`, with connections of their own and through one.
With --unchanged the copy is there before. With --text the files are words, not noise. Prints medians and quartiles of the time relative to rsync.
Each copy is compared with the source by diff -r once.
"""
import argparse
import contextlib
import os
import random
import shlex
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Line:
    """The line of one copy, and what it has counted."""

    def __init__(self, place, options):
        self.socket, self.counts = f"{place}/line.socket", f"{place}/line.counts"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        sshd = f"/usr/sbin/sshd -i -f /dev/null -o HostKey={place}/host -o UsePAM=no -o StrictModes=no"
        sshd += f" -o AuthorizedKeysFile={place}/user.pub"
        numbers = options.rtt, options.rate * 2**20, int(options.window * 2**20), options.loss
        words = [f"{place}/line", *map(str, numbers), self.socket, self.counts, *sshd.split()]
        self.process = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            time.sleep(0.001)

    def sent_bytes(self):
        """By ssh, and again by TCP."""
        with open(self.counts, "rb") as file:
            return struct.unpack("4Q", file.read())[0:3:2]

    def end(self):
        """Returns its processor seconds."""
        os.kill(self.process.pid, signal.SIGKILL)
        _, _, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        return usage.ru_utime + usage.ru_stime


def prepare(place, options):
    """Keys, the line, and the script that stands for ssh, whose path is returned."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", f"{place}/{name}"], check=True)
    os.makedirs("/run/sshd", exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", f"{place}/line", f"{HERE}/line.c", "-lm"], check=True)
    with open(f"{place}/ssh", "w") as script:
        script.write(
            f"#!/bin/sh\nexec ssh -F none -i {place}/user -o StrictHostKeyChecking=no -o LogLevel=ERROR"
            f" -o UserKnownHostsFile={place}/known -o ProxyUseFdpass=yes"
            f" -o 'ProxyCommand={place}/line {place}/line.socket' {options.ssh_args} \"$@\"\n"
        )
    os.chmod(f"{place}/ssh", 0o700)
    return f"{place}/ssh"


def words(size):
    """Text of 4,000 words, of which a few are frequent: zstd -1 leaves a third."""
    known = [os.urandom(random.randint(1, 5)).hex() for _ in range(4000)]
    chosen = random.choices(known, [1 / rank for rank in range(1, 4001)], k=size // 3)
    return " ".join(chosen).encode()[:size]


def make(tree, files, size, is_text=False):
    block = (words if is_text else os.urandom)(min(size, 1 << 20))
    for number in range(files):
        if number % 100 == 0:
            folder = f"{tree}/{number // 100}"
            os.makedirs(folder)
        with open(f"{folder}/{number}", "wb") as file:
            left = size
            while left > 0:
                left -= file.write(block[: min(left, len(block))])


def line_arguments(parser):
    parser.add_argument("gush")
    parser.add_argument("--rtt", type=float, default=50, help="milliseconds")
    parser.add_argument("--rate", type=float, default=119, help="MiB/s; 119 are 1 Gbit/s")
    parser.add_argument("--window", type=float, default=4, help="MiB; 4 are Linux's default (tcp_wmem)")
    parser.add_argument("--loss", type=float, default=0, help="probability that a segment is lost")
    parser.add_argument("--ssh-args", default="")
    parser.add_argument("--dir", default="/dev/shm")


def ways(options, place, rsh):
    """The commands, by name. Those of a second copy need what is there."""
    gush, total = os.path.abspath(options.gush), options.files * options.bytes
    ways = {"rsync -a": ["rsync", "-a", "-e", rsh, f"{place}/tree/", f"root@h:{place}/copy"]}
    for arguments in options.gush_args or [""]:
        ways[f"gush cp -aT {arguments}".strip()] = [
            *(gush, "cp", "-aT", "--rsh", rsh, "--remote-gush", gush, *shlex.split(arguments)),
            *(f"{place}/tree", f"root@h:{place}/copy"),
        ]
    if options.unchanged:
        return ways
    tar = f"tar cf - -C {place}/tree . | {rsh} root@h 'mkdir {place}/copy && tar xf - -C {place}/copy'"
    ways["tar | ssh tar"] = ["sh", "-c", tar]
    for count in options.floor:
        source, master = f"head -c {total // count} /dev/zero", f"-S {place}/master root@h"
        own = f"{source} | {rsh} root@h 'cat >/dev/null' &" * count + " wait"
        shared = f"{source} | {rsh} {master} 'cat >/dev/null' &" * count + " wait"
        shared = f"{rsh} -MNf {master} >/dev/null 2>&1; {shared}; {rsh} -O exit {master}"
        ways[f"{count} ssh cat"] = ["sh", "-c", own]
        if count > 1:
            ways[f"{count} ssh cat through one ssh"] = ["sh", "-c", shared]
    return ways


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line_arguments(parser)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=4096, help="of each file")
    parser.add_argument("--gush-args", action="append", help="options of gush; once for each row")
    parser.add_argument("--floor", type=lambda text: [int(n) for n in text.split(",")], default=[])
    parser.add_argument("--unchanged", action="store_true")
    parser.add_argument("--text", action="store_true", help="files of words")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as place:
        rsh = prepare(place, options)
        make(f"{place}/tree", options.files, options.bytes, options.text)
        commands = ways(options, place, rsh)
        rows = {name: [] for name in commands}
        for round in range(options.rounds):
            for name in random.sample(list(commands), len(commands)):
                shutil.rmtree(f"{place}/copy", ignore_errors=True)
                if options.unchanged:
                    subprocess.run(["cp", "-a", f"{place}/tree", f"{place}/copy"], check=True)
                line = Line(place, options)
                begun = time.monotonic()
                done = subprocess.run(commands[name], capture_output=True, text=True)
                took, sent = time.monotonic() - begun, line.sent_bytes()
                rows[name].append((took, *sent, line.end()))
                if done.returncode:
                    sys.exit(f"{name}: status {done.returncode}: {done.stderr}")
                if round == 0 and "cat" not in name:
                    subprocess.run(["diff", "-r", f"{place}/tree", f"{place}/copy"], check=True)
        for name, own in rows.items():
            ratios = sorted(one[0] / other[0] for one, other in zip(own, rows["rsync -a"]))
            quartiles = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
            took, sent, again, used = (statistics.median(column) for column in zip(*own))
            print(
                f"{name}: {took:.2f} s, {statistics.median(ratios):.2f}"
                f" ({quartiles[0]:.2f} to {quartiles[1]:.2f}) of rsync's, {sent / 2**20:.1f} MiB"
                f" and {again / 2**20:.1f} again, {used:.2f} s of the line's processor"
            )
        total = options.files * options.bytes
        print(f"the line alone takes {total / (options.rate * 2**20):.2f} s")


if __name__ == "__main__":
    main()
