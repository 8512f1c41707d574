#!/usr/bin/env python3
"""Does `gush pv --pipeline` name the stage that holds the others up, and what does looking cost?

    bench/pipeline.py GUSH [--pipelines 200] [--seed 1] [--rounds 10]

Pipelines of 3 to 6 stages, one of them throttled: by a rate limit, by a filter that computes, by a reader that sleeps, by a write
that waits for the disk (the last stage only), or by SIGSTOP. From a stage chosen by chance, one look: right, not certain, or a
wrong name stated as certain. Then a pipeline of 4 GiB, alone and watched ten times a second, in turns: the processor time of its
stages and of the watching program.
"""
import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BUSY = """
import os
while block := os.read(0, 65536):
    for i in range(60000): i * i
    os.write(1, block)
"""
SLEEPY = """
import os, time
while block := os.read(0, 65536):
    time.sleep(0.03)
    os.write(1, block)
"""


def throttled(kind, gush, directory):
    return {
        "rate": [gush, "pv", "-q", "-L", "2M"],
        "computes": [sys.executable, "-c", BUSY],
        "sleeps": [sys.executable, "-c", SLEEPY],
        "stopped": ["cat"],
        "disk": ["dd", "bs=16k", "iflag=fullblock", "oflag=sync", f"of={directory}/written"],
    }[kind]


def start(commands):
    stages = []
    source = open("/dev/zero", "rb")
    for place, command in enumerate(commands):
        is_last = place + 1 == len(commands)
        sink = subprocess.DEVNULL if is_last else subprocess.PIPE
        stage = subprocess.Popen(command, stdin=source, stdout=sink, stderr=subprocess.DEVNULL, bufsize=0)
        source.close()
        source = stage.stdout
        stages.append(stage)
    return stages


def end(stages):
    for stage in stages:
        stage.kill()
    for stage in stages:
        stage.wait()


def named(gush, count, chance, directory):
    fillers = [["cat"], ["tr", "a", "b"], [gush, "cat"], ["dd", "bs=64k"], [gush, "pv", "-q"], ["head", "-c", "1T"]]
    tally = {}
    slowest = 0
    for number in range(count):
        length = chance.randint(3, 6)
        place = chance.randrange(length)
        kinds = ["rate", "computes", "sleeps", "stopped"] + ["disk"] * (place + 1 == length)
        kind = chance.choice(kinds)
        commands = [chance.choice(fillers) for _ in range(length)]
        commands[place] = throttled(kind, gush, directory)
        stages = start(commands)
        if kind == "stopped":
            time.sleep(0.1)
            stages[place].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        asked = chance.choice(stages).pid
        began = time.monotonic()
        look = subprocess.run([gush, "pv", "--pipeline", str(asked), "--once", "--json"], capture_output=True, text=True)
        slowest = max(slowest, time.monotonic() - began)
        verdict = json.loads(look.stdout)["verdict"] if look.returncode == 0 else {"certain": False, "what": look.stderr}
        result = "not certain"
        if verdict["certain"]:
            result = "right" if verdict["pid"] == stages[place].pid else "wrong"
        if result != "right":
            print(f"{number}: {kind} at {place} of {[c[:2] for c in commands]}: {result}: {verdict['what']}")
        tally[kind, result] = tally.get((kind, result), 0) + 1
        end(stages)
    for result in ["right", "not certain", "wrong"]:
        of = {kind: n for (kind, found), n in sorted(tally.items()) if found == result}
        print(f"{result}: {sum(of.values())} of {count} {of}")
    print(f"the longest look took {slowest:.2f} s")


def processor_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def cost(gush, rounds):
    def run(is_watched):
        line = "head -c 4G /dev/zero | cat | tr a b | cat >/dev/null"
        began, before = time.monotonic(), processor_seconds(resource.RUSAGE_CHILDREN)
        shell = subprocess.Popen(["sh", "-c", line])
        # The shell starts the stages.
        time.sleep(0.05)
        if is_watched:
            watch = subprocess.Popen([gush, "pv", "--pipeline", str(shell.pid), "-n", "-i", "0.1"], stdout=subprocess.DEVNULL)
        shell.wait()
        seconds, stages = time.monotonic() - began, processor_seconds(resource.RUSAGE_CHILDREN) - before
        if not is_watched:
            return seconds, stages, 0
        watch.wait()
        return seconds, stages, processor_seconds(resource.RUSAGE_CHILDREN) - before - stages

    pairs = [(run(False), run(True)) for _ in range(rounds)]
    time_ratio = statistics.median(watched[0] / alone[0] for alone, watched in pairs)
    stages = statistics.median(watched[1] / alone[1] for alone, watched in pairs)
    own = statistics.median(watched[2] / watched[0] for _, watched in pairs)
    print(f"watched to alone: time {time_ratio:.3f}, processor time of the stages {stages:.3f}; watching takes {own:.2%} of a processor")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gush")
    parser.add_argument("--pipelines", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    gush = os.path.abspath(options.gush)
    with tempfile.TemporaryDirectory(dir=".") as directory:
        named(gush, options.pipelines, random.Random(options.seed), directory)
    if options.rounds:
        cost(gush, options.rounds)


if __name__ == "__main__":
    main()
