#!/usr/bin/env python3
"""Kills of a copy to another machine at random points, and what --resume makes of it.

    bench/wire_kills.py GUSH [--kills N] [--seed N] [--tool rsync] [--gush-args=ARGS] [--rtt MS] [--rate MIB]

The victim is gush here, gush there, one of the ssh, one of the sshd, or the line of bench/line.c, which
can also hold everything for a while instead. The moment is a random count of the bytes sent. After a
kill both sides have to end by themselves, no name may have other bytes than the source, and the same
command is run again (gush with --resume both times): the copy has to be the source, with nothing left over. Prints what
was sent beyond one whole copy, in per cent of it. `--tool rsync` shows that the harness is right.
"""
import argparse
import collections
import filecmp
import os
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import wire

VICTIMS = ("here", "there", "ssh", "sshd", "line", "hold")
END_SECONDS = 30


def processes():
    """Of each process that is alive: its parent and its name."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(") ", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = rest.split()[:2]
        if state not in "ZX":
            found[int(entry)] = int(parent), name
    return found


def below(root):
    """The processes that `root` has started, directly or not, by name."""
    all, names, above = processes(), collections.defaultdict(list), {root}
    while new := {pid for pid, (parent, _) in all.items() if parent in above} - above:
        above |= new
    for pid in above - {root}:
        names[all[pid][1]].append(pid)
    return names


def victim(kind, copy, line, tool):
    """The process, or None if there is none yet."""
    found = {
        "here": lambda: [copy.pid],
        "there": lambda: below(line.process.pid)[tool],
        "ssh": lambda: below(copy.pid)["ssh"],
        "sshd": lambda: below(line.process.pid)["sshd"],
        "line": lambda: [line.process.pid],
        "hold": lambda: [line.process.pid],
    }[kind]()
    return random.choice(found) if found else None


def listing(tree):
    """What find(1) sees of each entry, but for the times of directories that are being filled."""
    seen = subprocess.run(
        ["find", tree, "-mindepth", "1", "-printf", r"%P %y %m %U %G %s %n %T@ %l\0"],
        capture_output=True, check=True,
    )
    return sorted(seen.stdout.split(b"\0"))


def make(tree, mib):
    """Half of the bytes in small files, half in eight large ones, one with a hole; two hard links."""
    wire.make(tree, mib << 20 >> 15, 16 << 10)
    os.mkdir(f"{tree}/large")
    for number in range(8):
        with open(f"{tree}/large/{number}", "wb") as file:
            file.seek((number == 7) << 24)
            file.write(os.urandom(mib << 16))
    os.link(f"{tree}/large/0", f"{tree}/second")
    os.symlink("nowhere", f"{tree}/link")


def differs(tree, copy):
    """Names of the copy whose bytes are not the source's."""
    wrong = []
    for folder, _, names in os.walk(copy):
        for name in names:
            path = os.path.join(folder, name)
            source = os.path.join(tree, os.path.relpath(path, copy))
            if os.path.isfile(path) and not os.path.islink(path) and os.path.isfile(source):
                if not filecmp.cmp(path, source, shallow=False):
                    wrong.append(os.path.relpath(path, copy))
    return wrong


def ends(test, what):
    until = time.monotonic() + END_SECONDS
    while not test():
        if time.monotonic() > until:
            sys.exit(f"{what} after {END_SECONDS} s")
        time.sleep(0.002)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    wire.line_arguments(parser)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mib", type=int, default=256, help="of the tree")
    parser.add_argument("--tool", choices=("gush", "rsync"), default="gush")
    parser.add_argument("--gush-args", default="")
    options = parser.parse_args()
    random.seed(options.seed)
    with tempfile.TemporaryDirectory(dir=options.dir) as place:
        rsh, tree, copy = wire.prepare(place, options), f"{place}/tree", f"{place}/copy"
        make(tree, options.mib)
        gush = os.path.abspath(options.gush)
        first = {
            "rsync": ["rsync", "-aH", "--partial", "-e", rsh, f"{tree}/", f"root@h:{copy}"],
            "gush": [gush, "cp", "-aT", "--resume", "--rsh", rsh, "--remote-gush", gush]
            + [*shlex.split(options.gush_args), tree, f"root@h:{copy}"],
        }[options.tool]
        # A killed rsync leaves its temporary files.
        again = first if options.tool == "gush" else [*first[:2], "--delete", *first[2:]]

        def run(command, kind=None, at_bytes=0):
            """Returns the bytes sent and the status."""
            line = wire.Line(place, options)
            with open(f"{place}/messages", "w") as messages:
                process = subprocess.Popen(command, stdout=messages, stderr=messages)
            if kind:
                chosen = None
                while process.poll() is None and not chosen:
                    if line.sent_bytes()[0] >= at_bytes:
                        chosen = victim(kind, process, line, options.tool)
                    time.sleep(0.0005)
                others = sum(below(line.process.pid).values(), [])
                if chosen and kind == "hold":
                    os.kill(chosen, signal.SIGSTOP)
                    time.sleep(random.uniform(0.05, 2))
                    os.kill(chosen, signal.SIGCONT)
                elif chosen:
                    os.kill(chosen, signal.SIGKILL)
            if kind and kind != "hold":
                ends(lambda: process.poll() is not None, f"{kind} killed: the copy still runs")
                ends(lambda: not processes().keys() & others, f"{kind} killed: the other side still runs")
            status = process.wait()
            sent = line.sent_bytes()[0]
            line.end()
            return sent, status

        def must(condition, what):
            if not condition:
                with open(f"{place}/messages") as messages:
                    sys.exit(f"{what}\n{messages.read()[-2000:]}")

        whole, status = run(first)
        must(status == 0, f"a copy ended with {status}")
        wanted = listing(tree)
        must(listing(copy) == wanted, "a copy differs")
        beyond, partial = collections.defaultdict(list), 0
        for number in range(options.kills):
            shutil.rmtree(copy, ignore_errors=True)
            kind, at_bytes = VICTIMS[number % len(VICTIMS)], random.randrange(whole)
            what = f"kill {number}: {kind} at {at_bytes} of {whole} bytes"
            sent, status = run(first, kind, at_bytes)
            partial += len(differs(tree, copy))
            if kind == "hold":
                must(status == 0, f"{what}: status {status}")
            elif status:
                more, status = run(again)
                sent += more
                must(status == 0, f"{what}: resumed with status {status}")
            must(not differs(tree, copy) and listing(copy) == wanted, f"{what}: the copy differs")
            beyond[kind].append(100 * (sent - whole) / whole)
        print(f"{options.kills} kills, {whole / 2**20:.1f} MiB each, {partial} names with other bytes at the kill")
        for kind, per_cent in beyond.items():
            print(f"{kind}: sent twice {statistics.median(per_cent):.2f} %, at most {max(per_cent):.2f} %")


if __name__ == "__main__":
    main()
