#!/usr/bin/env python3
"""How well a meter keeps to a limit, as a reader sees it: over all, and in each window of 100 ms after the first.

    gush pv -q -L 1G /dev/zero | bench/rate.py [BYTES_A_SECOND [SECONDS]]

A case file has one time a sample, and no look inside. Aims: within 0.01 of 1 over all, within 0.1 in every window.
"""
import os
import sys
import time

WINDOW_SECONDS = 0.1


def main():
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 30
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5
    windows = [0] * (int(seconds / WINDOW_SECONDS) + 1)
    os.read(0, 1 << 20)
    began = time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        windows[int(now / WINDOW_SECONDS)] += len(os.read(0, 1 << 20))
    parts = [count / (limit * WINDOW_SECONDS) for count in windows[1:-1]]
    worst = max(parts, key=lambda part: abs(part - 1))
    print(f"{sum(windows) / limit / seconds:.4f} of the limit over all, {worst:.3f} in the worst window")


if __name__ == "__main__":
    main()
