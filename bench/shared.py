"""What the benchmarks of this directory have in common."""
import argparse
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


def build_bare(work):
    """Compiles the bare splice loops of bare.c into the directory `work`; answers their path."""
    binary = str(Path(work) / "bare")
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", binary, str(ROOT / "bench/bare.c")], check=True)
    return binary


def print_machine(peers):
    model = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    print(f"machine: {model}, {os.cpu_count()} processors, Linux {platform.release()}")
    print(f"peers: {'; '.join(peers)}; load {os.getloadavg()[0]:.2f} at the start")


def first_line(argv):
    """The first line that a program prints, or nothing if it is not installed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return (done.stdout + done.stderr).splitlines()[0]


def read_options(doc, cases, size_help, more):
    """The options that benchmarks of whole commands share, and `more`: (name, default, help). `wanted` are cases, by name."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", type=int, default=1 << 30, help=size_help)
    parser.add_argument("--dir", default="/dev/shm", help="where files are made")
    parser.add_argument("--only", default="", help="cases, by name")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--gush", default="", help="the binary; built from this checkout without it")
    for name, default, words in more:
        parser.add_argument(f"--{name}", default=default, help=words)
    options = parser.parse_args()
    options.wanted = [name for name in options.only.split(",") if name] or list(cases)
    unknown = set(options.wanted) - set(cases)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(cases)}")
    return options


def started(argv, options, **how):
    """Starts a program, before all other work with --realtime."""
    return subprocess.Popen(["chrt", "-f", "10", *argv] if options.realtime else argv, **how)


def finished(child):
    """Waits; answers the processor seconds of the program."""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def compare(title, contenders, rounds, measure, aims):
    """Prints a table of {label: contender}; a sample is the seconds of the whole and the processor's.

    An aim is {peer: factor}: gush is to be at least so many times as fast.
    """
    print(f"\n## {title}")
    samples = interleaved(contenders, rounds, measure)
    print("| contender | median | ratio | quartiles | processor |\n|---|---|---|---|---|")
    mine = [seconds for seconds, _ in samples["gush"]]
    for label, each in samples.items():
        times = [seconds for seconds, _ in each]
        middle, low, high = ratios(times, mine)
        used = statistics.median(cpu for _, cpu in each)
        print(f"| {label} | {statistics.median(times) * 1e3:.1f} ms | {middle:.2f} | {low:.2f} to {high:.2f} | {used * 1e3:.1f} ms |", flush=True)
    for peer, factor in aims.items():
        ratio = ratios([seconds for seconds, _ in samples[peer]], mine)[0]
        print(f"- gush is {ratio:.2f} times as fast as {peer}, aim >= {factor}: {'reached' if ratio >= factor else 'MISSED'}", flush=True)
    return samples


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


class Quiet:
    """Measures in moments in which nothing else runs, as far as `patience` seconds a sample allow."""

    def __init__(self, patience):
        self.patience, self.samples, self.noisy = patience, 0, 0

    def of(self, measure):
        return lambda contender: self.sample(measure, contender)

    def sample(self, measure, contender):
        deadline = time.monotonic() + self.patience
        self.samples += 1
        while True:
            # Several looks in turn: a compiler, too, waits for its disk now and then.
            looks = 0
            while looks < 4 and time.monotonic() < deadline:
                looks = looks + 1 if running() == 1 else 0
                time.sleep(0.002)
            sample = measure(contender)
            if running() == 1:
                return sample
            if time.monotonic() >= deadline:
                self.noisy += 1
                return sample


def running():
    """How many threads of the machine run or could run now, this one included (proc_stat(5))."""
    for line in open("/proc/stat"):
        if line.startswith("procs_running"):
            return int(line.split()[1])
    return 1


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
