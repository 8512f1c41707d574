#!/usr/bin/env python3
"""What the README's figures become on kernels without calls that move bytes by reference.

    bench/worlds.py GUSH [--runs N] [--only ROW[,ROW...]]

Runs the comparisons of the case files as they are and under bench/without, which answers ENOSYS, and
prints, for each peer, the median time of gush relative to it, with the quartiles of the rounds.
A peer runs without the calls, too. The case files name the programs that they need.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WORLDS = [
    ("all calls", ""),
    ("no vmsplice", "vmsplice"),
    ("no splice, tee, sendfile", "splice,tee,sendfile"),
    ("none", "splice,tee,sendfile,vmsplice,copy_file_range"),
]
# Row, case file, comparison, contender.
ROWS = [
    ("cp FILE", "copy.toml", "cached", "gush cp"),
    ("cat FILE | cat", "copy.toml", "pipe", "gush cat"),
    ("gush cat FILE | gush cat", "cat.toml", "pair", "gush"),
    ("cat FILE | wc -c", "cat.toml", "counted", "gush"),
    ("pv between programs", "pv.toml", "zeros", "gush pv"),
    ("pv FILE | cat", "pv.toml", "file", "gush pv"),
    ("pv FILE >/dev/null", "pv.toml", "file-null", "gush pv"),
    ("cat FILE | pv >FILE", "pv.toml", "to-file", "gush pv"),
    ("tee to two readers", "tee.toml", "two", "gush"),
    ("yes | head", "yes.toml", "read", "gush"),
    ("lines into cat", "lines.toml", "cat", "gush::pipe::Writer"),
    ("relay one connection", "relay.toml", "bulk", "gush link"),
    ("relay short connections", "relay.toml", "short", "gush link"),
]
NOT_PEERS = ("gush", "bare", "no meter", "least")


def times(gush, runs, calls, file, only):
    with tempfile.NamedTemporaryFile(suffix=".json") as to:
        command = [os.path.join(HERE, "without"), calls] if calls else []
        command += [gush, "lab", "run", os.path.join(HERE, file), "--only", only, "--runs", str(runs)]
        command += ["--dir", "/dev/shm", "--set", f"gush={gush}", "--no-store", "--export-json", to.name]
        done = subprocess.run(command, capture_output=True, text=True)
        try:
            results = json.load(open(to.name))["results"]
        except ValueError:
            sys.exit(f"{file} {only}, without {calls or 'nothing'}: {done.stderr}")
    return {one["command"]: one["times"] for one in results if not one["failure"]}, done.stderr


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("gush")
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--only", default="")
    options = options.parse_args()
    only = [name for name in options.only.split(",") if name]
    for row, file, comparison, contender in ROWS:
        if only and row not in only:
            continue
        for world, calls in WORLDS:
            samples, said = times(os.path.abspath(options.gush), options.runs, calls, file, comparison)
            ours = samples.pop(contender, None)
            if ours is None:
                why = [line for line in said.splitlines() if f" {contender}: " in line]
                print(f"{row}; {world}: {'; '.join(why) or 'gush failed'}", flush=True)
                continue
            ratios = []
            for peer, theirs in samples.items():
                if peer.startswith(NOT_PEERS):
                    continue
                rounds = sorted(one / other for one, other in zip(ours, theirs))
                quartiles = rounds[len(rounds) // 4], rounds[-1 - len(rounds) // 4]
                median = statistics.median(rounds)
                ratios.append(f"{peer} {median:.2f} ({quartiles[0]:.2f} to {quartiles[1]:.2f})")
            print(f"{row}; {world}: {', '.join(ratios) or 'no peer'}", flush=True)


main()
