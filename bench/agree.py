#!/usr/bin/env python3
"""gush lab twice in a row: does it agree with itself?

    bench/agree.py [--times N] [--gush PATH] [--dir DIR] [--db PATH] [-- ARGUMENTS OF gush lab]

Runs the same measurement N times (2 unless told otherwise) and compares each run with the one before by
`gush lab compare`. Nothing was changed in between, so every 'faster' or 'slower' is wrong; 'cannot tell' is
right. Prints how many cases of how many, by suite; each wrong verdict with its interval; how wide the
intervals are, because intervals that hold everything agree about everything; and how far the medians of
the same case lie apart from one run to the next: the noise between runs. Ends with status 1 if more than
5 % of the verdicts are wrong, which is what intervals of 95 % promise.

    bench/agree.py --times 3 -- pipe --rounds 9
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter

from shared import build

PROMISED = 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--gush", default="", help="the binary; built from this checkout without it")
    parser.add_argument("--dir", default=".", help="where files are made")
    parser.add_argument("--db", default="", help="where the runs are kept; else they are not")
    parser.add_argument("words", nargs="*", help="arguments of gush lab, after --")
    options = parser.parse_args()
    if options.times < 2:
        parser.error("--times: two runs at least are compared")
    gush = options.gush or build()
    with tempfile.TemporaryDirectory(prefix="gush-agree-", dir=options.dir) as work:
        db = options.db or os.path.join(work, "lab.jsonl")
        # The tour makes files and a report; a single suite is given what was said, and nothing else.
        places = [] if options.words and not options.words[0].startswith("-") else [
            "--dir", work, "--report", os.path.join(work, "report.html")]
        for number in range(options.times):
            print(f"run {number + 1} of {options.times}", file=sys.stderr)
            measured = subprocess.run([gush, "lab", *options.words, *places, "--db", db],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for line in measured.stderr.splitlines():
                if "warning: " in line:
                    print(line, file=sys.stderr)
        pairs = [compared(gush, db, back) for back in range(options.times - 1, 0, -1)]
    sys.exit(told(pairs))


def compared(gush, db, back):
    words = ["lab", "compare", f"last~{back}", f"last~{back - 1}", "--json", "--db", db]
    return json.loads(subprocess.run([gush, *words], stdout=subprocess.PIPE, check=True).stdout)


def told(pairs):
    cases = [case for pair in pairs for case in pair["cases"]]
    suites = list(dict.fromkeys(case["suite"] for case in cases))
    print(f"{'suite':8}  {'verdicts':>8}  {'cannot tell':>11}  {'wrong':>5}  {'decidable':>9}  "
          f"{'half width':>10}  {'between runs':>12}")
    for suite in [*suites, "all"]:
        own = [case for case in cases if suite in (case["suite"], "all")]
        verdicts = Counter(case["verdict"] for case in own)
        # Too few samples are no verdict at all, and agree with everything.
        decidable = sum(min(case["samples"]) >= 5 for case in own)
        width = statistics.median(math.log(case["ratio"]["high"] / case["ratio"]["low"]) / 2 for case in own)
        between = statistics.median(abs(math.log(case["ratio"]["value"])) for case in own)
        print(f"{suite:8}  {len(own):8}  {verdicts['cannot-tell']:11}  {len(own) - verdicts['cannot-tell']:5}  "
              f"{decidable:9}  {width:9.1%}  {between:12.1%}")
    for pair in pairs:
        print("margin {:.1%}, drift {:.1%}; others took {:.1%} and {:.1%} of the processors' time".format(
            pair["margin"], pair["drift"], *pair["others"]))
    wrong = [case for case in cases if case["verdict"] != "cannot-tell"]
    for case in wrong:
        ratio = case["ratio"]
        print(f"wrong: {case['suite']} {case['case']}: {case['verdict']}: {ratio['value']:.3f} "
              f"({ratio['low']:.3f} … {ratio['high']:.3f})")
    return 0 if len(wrong) <= PROMISED * len(cases) else 1


if __name__ == "__main__":
    main()
