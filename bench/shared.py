"""What the benchmarks of this directory have in common."""
import os
import platform
import random
import statistics
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20


def build(*package, binary="gush"):
    """Builds this checkout's release binary; answers its path."""
    subprocess.run(["cargo", "build", "--release", "--quiet", *(package or ["-p", "gush-cli"])], cwd=ROOT, check=True)
    return str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / binary)


def print_machine(peers):
    model = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    print(f"machine: {model}, {os.cpu_count()} processors, Linux {platform.release()}")
    print(f"peers: {'; '.join(peers)}; load {os.getloadavg()[0]:.2f} at the start")


def interleaved(contenders, rounds, measure):
    """Measures each of {label: contender} once a round, in shuffled order; {label: samples in the rounds' order}.

    A round more than was asked for comes first and only warms up.
    """
    samples = {label: [] for label in contenders}
    for round_number in range(rounds + 1):
        labels = list(contenders)
        random.shuffle(labels)
        for label in labels:
            sample = measure(contenders[label])
            if round_number > 0:
                samples[label].append(sample)
    return samples


def ratios(mine, theirs):
    """The median and the quartiles of the ratios within each round."""
    each = sorted(a / b for a, b in zip(mine, theirs))
    low, _, high = statistics.quantiles(each, n=4) if len(each) > 1 else each * 3
    return statistics.median(each), low, high


def noise_file(path, size):
    """A file of `size` random bytes, on the disk and in the page cache."""
    path = Path(path)
    if not path.exists():
        with open(path, "wb") as file, open("/dev/urandom", "rb") as noise:
            block = noise.read(min(size, 8 * MIB))
            left = size
            while left:
                left -= file.write(block[: min(left, len(block))])
    subprocess.run(["sync", str(path)], check=False)
    with open(path, "rb") as file:
        while file.read(MIB):
            pass
    return str(path)
