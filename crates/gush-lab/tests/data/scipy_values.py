#!/usr/bin/env python3
"""Writes scipy_values.json: what SciPy says of stored samples. Needs SciPy; the tests need only the file."""
import json
import pathlib

import numpy as np
import scipy
from scipy import stats

RESAMPLES = 200_000
rng = np.random.default_rng(20261121)

SETS = {
    "five": [4.41, 4.52, 4.38, 4.47, 4.60],
    "six": [12.1, 11.8, 12.4, 12.0, 12.9, 11.9],
    "nine, two of them slow": [58.2, 58.9, 57.7, 31.0, 58.1, 58.4, 44.2, 58.6, 58.0],
    "twenty, skewed": [round(x, 4) for x in rng.lognormal(1.5, 0.2, 20)],
    "thirty-one, tight": [round(x, 5) for x in rng.normal(0.8, 0.01, 31)],
    "equal but for one": [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0],
}
PAIRS = [
    ("five", "five"),
    ("twenty, skewed", "thirty-one, tight"),
    ("nine, two of them slow", "six"),
]
drift = rng.normal(1.0, 0.2, 15)
PAIRED = {
    "drifting together": [
        [round(8 * d * e, 4), round(2 * d * f, 4)]
        for d, e, f in zip(drift, rng.normal(1, 0.02, 15), rng.normal(1, 0.02, 15))
    ],
}


def interval(data, statistic, paired=False):
    found = stats.bootstrap(data, statistic, n_resamples=RESAMPLES, confidence_level=0.95, method="percentile",
                            paired=paired, vectorized=True, batch=10_000, rng=np.random.default_rng(1))
    return [float(found.confidence_interval.low), float(found.confidence_interval.high)]


def around_median(x):
    found = stats.quantile_test(x, q=np.median(x), p=0.5).confidence_interval(0.95)
    # Of five samples no interval is surer than from the least to the most, and SciPy says that there is none.
    return [min(x), max(x)] if np.isnan(found.low) or np.isnan(found.high) else [float(found.low), float(found.high)]


def ratio(a, b, axis=-1):
    return np.median(a, axis=axis) / np.median(b, axis=axis)


def modified_z(x):
    x = np.asarray(x)
    mad = stats.median_abs_deviation(x)
    centred = x - np.median(x)
    if mad > 0:
        return (0.6745 * centred / mad).tolist()
    return (0.7979 * centred / np.mean(np.abs(centred))).tolist()


values = {
    "scipy": scipy.__version__,
    "sets": [{"name": name, "samples": x, "median": float(np.median(x)), "interval": around_median(x),
              "modified_z": modified_z(x)} for name, x in SETS.items()],
    "ratios": [{"of": a, "to": b, "value": float(ratio(SETS[a], SETS[b])), "interval": interval((SETS[a], SETS[b]), ratio)}
               for a, b in PAIRS],
    "paired": [{"name": name, "rounds": rounds, "value": float(ratio(*zip(*rounds))),
                "interval": interval(tuple(zip(*rounds)), ratio, paired=True)} for name, rounds in PAIRED.items()],
}
pathlib.Path(__file__).with_name("scipy_values.json").write_text(json.dumps(values, indent=1) + "\n")
