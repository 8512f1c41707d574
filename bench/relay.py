#!/usr/bin/env python3
"""gush link beside HAProxy, nginx and socat: ratios in one interleaved run.

    bench/relay.py [--rounds N] [--size BYTES] [--only NAME,...] [--gush PATH] [--relay COMMAND]

Cases: bulk (one connection through loopback), file-out (a file to a socket), file-in (a socket to a
file), many (1,000 connections at once, 1 MiB both ways, checked), short (10,000 connections, none
lost, descriptors counted), pingpong (64 bytes there and back), bodies (1 KiB to 1 MiB there and back), iperf3
(the program of that name measures one connection through the relay).

Every round runs each contender once, in shuffled order, against the load of
crates/gush-net/examples/load.rs; what is printed is the median of each, the median of the ratio to
the first contender within the same round, and under each table gush link against what it aims at.
Processor seconds are those of the relay alone, its threads and children, from /proc/PID. Contenders
that are not installed are left out, visibly. --only bulk --rounds 1 --size 268435456 is a short try.
"""
import argparse
import atexit
import json
import os
import resource
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from shared import build, build_bare, first_line, interleaved, print_machine

GIB = 1 << 30


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, default=4 * GIB, help="bytes of one bulk transfer")
    parser.add_argument("--clients", type=int, default=1000, help="connections at once in many")
    parser.add_argument("--count", type=int, default=10000, help="connections of short, messages of pingpong")
    parser.add_argument("--file-size", type=int, default=GIB, help="bytes of the files of file-out and file-in")
    parser.add_argument("--dir", default=".", help="where those files are; on tmpfs no disk has a say")
    parser.add_argument("--only", default="", help="cases, by name")
    parser.add_argument("--without", default="", help="contenders to leave out, by name")
    parser.add_argument("--gush", default="", help="the binary; built from this checkout without it")
    parser.add_argument("--load", default="", help="the load example; built from this checkout without it")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=PROGRAM",
                        help="one more gush, such as the one before a change")
    parser.add_argument("--relay", action="append", default=[], metavar="NAME=COMMAND",
                        help="one more relay, with {listen} and {connect} for the ports")
    options = parser.parse_args()
    unknown = {name for name in options.only.split(",") if name} - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    # Ended by a signal, the script takes its relays and files with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    gush = options.gush or build()
    load = options.load or build("-p", "gush-net", "--example", "load", binary="examples/load")
    print_peers()
    wanted = [name for name in options.only.split(",") if name]
    # nginx takes a relative path in its settings for one below a directory of its own.
    with tempfile.TemporaryDirectory(prefix="gush-bench-", dir=Path(options.dir).resolve()) as work:
        bench = Bench(gush, load, Path(work), options)
        for name, case in CASES.items():
            if not wanted or name in wanted:
                case(bench)


def print_peers():
    versions = {"haproxy": first_line(["haproxy", "-v"]), "nginx": first_line(["nginx", "-v"]), "socat": socat_version()}
    print_machine(filter(None, versions.values()))
    absent = [name for name, version in versions.items() if not version]
    if absent:
        print(f"NOT INSTALLED, left out: {', '.join(absent)}")


def socat_version():
    if not shutil.which("socat"):
        return ""
    lines = subprocess.run(["socat", "-V"], capture_output=True, text=True).stdout.splitlines()
    return next((line for line in lines if line.startswith("socat version")), "socat").split(" on ")[0]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A relay at work, and what it has used."""

    def __init__(self, argv, port, said):
        self.said = said
        with open(said, "wb") as stderr:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=stderr)
        atexit.register(self.end)
        self.wait_for(port)

    def wait_for(self, port):
        """Until it listens, without connecting: a listener for one client would take that for it."""
        local = f"0100007F:{port:04X}"
        anywhere = f"00000000:{port:04X}"
        for _ in range(500):
            listening = [line.split()[1] for line in open("/proc/net/tcp").readlines()[1:] if line.split()[3] == "0A"]
            if local in listening or anywhere in listening:
                return
            if self.process.poll() is not None:
                sys.exit(f"{self.process.args[0]} ended before it listened: {self.last_words()}")
            time.sleep(0.01)
        sys.exit(f"{self.process.args[0]} does not listen: {self.last_words()}")

    def last_words(self):
        return Path(self.said).read_text(errors="replace").strip() or "it said nothing"

    def pids(self):
        """It, and its children: socat serves each client in one."""
        found, queue = [], [self.process.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            for task in listed(f"/proc/{pid}/task"):
                try:
                    queue += map(int, open(f"/proc/{pid}/task/{task}/children").read().split())
                except (FileNotFoundError, ProcessLookupError):
                    pass
        return found

    def cpu_seconds(self):
        # Of children that have ended, in clock ticks: cutime and cstime (proc(5)).
        ended = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()[13:15]
        total = sum(map(int, ended)) * 1e9 / os.sysconf("SC_CLK_TCK")
        for pid in self.pids():
            for task in listed(f"/proc/{pid}/task"):
                try:
                    total += int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0])
                except (FileNotFoundError, ProcessLookupError):
                    pass
        return total / 1e9

    def anonymous_bytes(self):
        total = 0
        for pid in self.pids():
            try:
                for line in open(f"/proc/{pid}/smaps_rollup"):
                    if line.startswith("Anonymous:"):
                        total += int(line.split()[1]) * 1024
            except (FileNotFoundError, ProcessLookupError):
                pass
        return total

    def descriptors(self):
        return sum(len(listed(f"/proc/{pid}/fd")) for pid in self.pids())

    def end(self):
        atexit.unregister(self.end)
        for pid in self.pids() if self.process.poll() is None else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def listed(path):
    try:
        return os.listdir(path)
    except (FileNotFoundError, ProcessLookupError):
        return []


class Peak(threading.Thread):
    """The most memory that a process had while something ran."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.peak, self.over = process, process.anonymous_bytes(), threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.03):
            self.peak = max(self.peak, self.process.anonymous_bytes())

    def end(self):
        self.over.set()
        self.join()
        return self.peak


# With splice-auto alone HAProxy 2.6 copied all of a bulk transfer here (strace: recvfrom and sendto), so
# that it is made to splice; its third form has pipes as large as ours.
HAPROXY = """
global
    maxconn 4000
    {pipes}
defaults
    mode tcp
    timeout connect 10s
    timeout client 60s
    timeout server 60s
    {splice}
frontend front
    bind 127.0.0.1:{listen} backlog 4096
    default_backend back
backend back
    server one 127.0.0.1:{connect}
"""

SPLICE = "option splice-request\n    option splice-response"
HAPROXIES = {
    "haproxy splice": {"splice": SPLICE, "pipes": ""},
    "haproxy splice with 1 MiB pipes": {"splice": SPLICE, "pipes": "tune.pipesize 1048576"},
    "haproxy splice-auto": {"splice": "option splice-auto", "pipes": ""},
}

NGINX = """
daemon off;
master_process off;
pid {work}/nginx.pid;
error_log stderr error;
events {{}}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/f;
    uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
    server {{ listen 127.0.0.1:{listen}; root {work}; }}
}}
"""


# Contenders for one connection at a time.
SPLICING = ("bare splice loop", "haproxy splice", "haproxy splice with 1 MiB pipes", "socat -b 262144")


class Bench:
    def __init__(self, gush, load, work, options):
        self.gush, self.load_path, self.work, self.options = gush, load, work, options
        # Loops in C that do nothing but splice, or receive and send: bare.c.
        self.bare = build_bare(work) if shutil.which("cc") else None

    def links(self, *words):
        """{name: command line} of gush link, and of each other gush that --also names."""
        others = dict(extra.split("=", 1) for extra in self.options.also)
        programs = {"gush link": self.gush} | {f"{name} link": program for name, program in others.items()}
        return {name: [program, "link", *words] for name, program in programs.items()}

    def relays(self):
        """{name: command line for (listen, connect)}; gush link first."""
        relays = self.links("tcp-listen:127.0.0.1:{listen},fork,reuseaddr,backlog=4096", "tcp:127.0.0.1:{connect}")
        for extra in self.options.relay:
            name, command = extra.split("=", 1)
            relays[name] = shlex.split(command)
        if self.bare:
            relays["bare splice loop"] = [self.bare, "relay", "{listen}", "{connect}"]
            relays["bare crowd"] = [self.bare, "crowd", "{listen}", "{connect}"]
        if shutil.which("haproxy"):
            relays |= {name: ["haproxy", "-db", "-f", f"{{haproxy}}/{name}.cfg"] for name in HAPROXIES}
        if shutil.which("socat"):
            relays["socat -b 262144"] = [
                "socat", "-b", "262144",
                "TCP-LISTEN:{listen},bind=127.0.0.1,fork,reuseaddr,backlog=4096,nodelay",
                "TCP:127.0.0.1:{connect},nodelay",
            ]
        without = self.options.without.split(",")
        return {name: argv for name, argv in relays.items() if name not in without}

    def with_only(self, *names):
        """Of the relays that are always there, those of these names; and all that --relay added."""
        added = {extra.split("=", 1)[0] for extra in self.options.relay} | set(self.links())
        return {name: argv for name, argv in self.relays().items() if name in names or name in added}

    def start(self, argv):
        listen, connect = free_port(), free_port()
        for name, settings in HAPROXIES.items():
            config = HAPROXY.format(listen=listen, connect=connect, **settings)
            (self.work / f"{name}.cfg").write_text(config)
        argv = [part.format(listen=listen, connect=connect, haproxy=self.work) for part in argv]
        return self.process(argv, listen), listen, connect

    def process(self, argv, port):
        return Process(argv, port, self.work / "stderr")

    def load(self, case, listen, connect, **values):
        argv = [self.load_path, case, "--listen", str(connect), "--connect", str(listen)]
        for name, value in values.items():
            argv += [f"--{name}", str(value)]
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            print(f"HANGS: {case}: the load did not end within 600 s")
            return None
        if done.returncode:
            return None
        return json.loads(done.stdout)

    def compare(self, name, contenders, columns, measure, aims=()):
        """Measures each contender once a round; prints medians, and ratios to the first.

        An aim is (peer, column, relation, factor): the median of the first contender's figure divided
        by the peer's within the same round is to be >= or <= the factor.
        """
        print(f"\n## {name}")
        samples = interleaved(contenders, self.options.rounds, measure)
        base = next(iter(contenders))
        print("| contender | " + " | ".join(f"{column} | ratio" for column in columns) + " |")
        print("|---" * (1 + 2 * len(columns)) + "|")
        for label, rows in samples.items():
            cells = []
            for column in columns:
                pairs = [(row[column], first[column]) for row, first in zip(rows, samples[base]) if row and first]
                if not pairs:
                    cells += ["failed", ""]
                    continue
                ratios = [mine / theirs for mine, theirs in pairs if theirs]
                ratio = f"{statistics.median(ratios):.3f}" if ratios else ""
                cells += [f"{statistics.median(mine for mine, _ in pairs):.3f}", ratio]
            failed = sum(row is None for row in rows)
            note = f" ({failed} of {len(rows)} failed)" if failed else ""
            print(f"| {label}{note} | " + " | ".join(cells) + " |", flush=True)
        print()
        for peer, column, relation, factor in aims:
            pairs = [(mine[column], theirs[column]) for mine, theirs in zip(samples[base], samples.get(peer, [])) if mine and theirs]
            ratios = [mine / theirs for mine, theirs in pairs if theirs]
            if not ratios:
                print(f"- {base} to {peer}, {column}: not measured")
                continue
            ratio = statistics.median(ratios)
            reached = ratio >= factor if relation == ">=" else ratio <= factor
            print(f"- {base} to {peer}, {column}: {ratio:.3f}, aim {relation} {factor}: {'reached' if reached else 'MISSED'}", flush=True)


def bulk(bench):
    size = bench.options.size

    def measure(argv):
        process, listen, connect = bench.start(argv)
        before = process.cpu_seconds()
        done = bench.load("bulk", listen, connect, bytes=size)
        used = process.cpu_seconds() - before
        process.end()
        return done and {"GiB/s": size / GIB / done["seconds"], "relay s/GiB": used / (size / GIB)}

    aims = [
        ("haproxy splice", "GiB/s", ">=", 1.5),
        ("haproxy splice", "relay s/GiB", "<=", 0.9),
        ("socat -b 262144", "GiB/s", ">=", 1.3),
        ("bare splice loop", "GiB/s", ">=", 0.97),
        ("haproxy splice with 1 MiB pipes", "GiB/s", ">=", 1.0),
        ("haproxy splice with 1 MiB pipes", "relay s/GiB", "<=", 1.0),
    ]
    bench.compare(f"bulk: one connection, {size} bytes", bench.with_only(*SPLICING, "haproxy splice-auto"), ["GiB/s", "relay s/GiB"], measure, aims)


def tls(bench):
    """The side of TLS that accepts; the side that connects is the same for all."""
    size, pair = bench.options.size, bench.work / "pair"
    subprocess.run([bench.gush, "link", "--make-cert", f"{pair},127.0.0.1"], check=True, stdout=subprocess.DEVNULL)
    own = f"cert={pair}.crt,key={pair}.key"
    relays = {"gush link": [bench.gush, "link", f"tls-listen:127.0.0.1:{{listen}},fork,{own}", "tcp:127.0.0.1:{connect}"]}
    if shutil.which("socat"):
        accepts = f"OPENSSL-LISTEN:{{listen}},bind=127.0.0.1,fork,reuseaddr,nodelay,verify=0,{own}"
        relays["socat"] = ["socat", accepts, "TCP:127.0.0.1:{connect},nodelay"]
        relays["socat -b 262144"] = ["socat", "-b", "262144", *relays["socat"][1:]]

    def measure(argv):
        process, listen, connect = bench.start(argv)
        near = free_port()
        connects = f"tls:127.0.0.1:{listen},cafile={pair}.crt"
        front = bench.process([bench.gush, "link", f"tcp-listen:127.0.0.1:{near},fork", connects], near)
        before = process.cpu_seconds()
        done = bench.load("bulk", near, connect, bytes=size)
        used = process.cpu_seconds() - before
        front.end()
        process.end()
        return done and {"GiB/s": size / GIB / done["seconds"], "relay s/GiB": used / (size / GIB)}

    aims = [(peer, "GiB/s", ">=", 1.0) for peer in ("socat", "socat -b 262144")]
    bench.compare(f"tls: one connection, {size} bytes", relays, ["GiB/s", "relay s/GiB"], measure, aims)


def many(bench):
    clients = bench.options.clients

    def measure(argv):
        process, listen, connect = bench.start(argv)
        idle, cpu = process.anonymous_bytes(), process.cpu_seconds()
        peak = Peak(process)
        done = bench.load("many", listen, connect, clients=clients, bytes=1 << 20)
        used = process.cpu_seconds() - cpu
        grown = peak.end() - idle
        process.end()
        if not done:
            return None
        if done["right"] != clients:
            print(f"WRONG BYTES: {argv[0]}: {done['right']} of {clients} connections right")
        return {"seconds": done["seconds"], "KiB/connection": grown / 1024 / clients, "relay s": used}

    relays = bench.with_only("bare crowd", "haproxy splice", "haproxy splice-auto")
    columns = ["seconds", "KiB/connection", "relay s"]
    aims = [(name, "seconds", "<=", 0.8) for name in ("haproxy splice", "haproxy splice-auto")]
    bench.compare(f"many: {clients} connections at once, 1 MiB both ways", relays, columns, measure, aims)
    print("- gush link, KiB/connection: aim <= 64, in the table")


def short(bench):
    count = bench.options.count

    def measure(argv):
        process, listen, connect = bench.start(argv)
        bench.load("short", listen, connect, count=64, clients=64)
        before, cpu = process.descriptors(), process.cpu_seconds()
        done = bench.load("short", listen, connect, count=count, clients=64)
        left, used = process.descriptors() - before, process.cpu_seconds() - cpu
        process.end()
        if done and (done["answered"] != count or left > 0):
            print(f"LOST: {argv[0]}: {done['answered']} of {count} answered; {left} descriptors more than before")
        return done and {"seconds": done["seconds"], "relay s": used, "left": left}

    relays = bench.with_only("bare crowd", "haproxy splice")
    bench.compare(f"short: {count} connections, 64 at a time", relays, ["seconds", "relay s", "left"], measure, [("haproxy splice", "seconds", "<=", 0.95)])


def there_and_back(bench, case, **values):
    def measure(argv):
        process, listen, connect = bench.start(argv)
        done = bench.load(case, listen, connect, **values)
        process.end()
        if done and done["over_35_ms"]:
            print(f"STEPS: {argv[0]}: {done['over_35_ms']} messages took 35 ms or more")
        return done
    return measure


def pingpong(bench):
    columns = ["median_us", "p99_us", "p999_us"]
    aims = [("haproxy splice", "median_us", "<=", 1.1)]
    relays = bench.with_only("bare splice loop", "haproxy splice", "socat -b 262144")
    measure = there_and_back(bench, "pingpong", count=bench.options.count)
    bench.compare("pingpong: 64 bytes there and back", relays, columns, measure, aims)


def bodies(bench):
    relays = bench.with_only(*SPLICING)
    aims = [(name, column, "<=", 1.0)
            for name in ("haproxy splice", "haproxy splice with 1 MiB pipes") for column in ("median_us", "p99_us")]
    for kib in (1, 4, 16, 64, 256, 1024):
        # As many bytes at each size, within what the median of short messages needs.
        count = min(bench.options.count, max(200, 256 * 1024 // kib))
        measure = there_and_back(bench, "bodies", count=count, bytes=kib << 10)
        bench.compare(f"bodies: {kib} KiB there and back, {count} times", relays, ["median_us", "p99_us"], measure, aims)


def iperf3(bench):
    if not shutil.which("iperf3"):
        print("\n## iperf3\nNOT INSTALLED, left out: iperf3")
        return

    def measure(argv):
        process, listen, connect = bench.start(argv)
        server = bench.process(["iperf3", "--server", "--bind", "127.0.0.1", "--port", str(connect), "--logfile", "/dev/null"], connect)
        client = ["iperf3", "--client", "127.0.0.1", "--port", str(listen), "--time", "3", "--json"]
        done = subprocess.run(client, stdout=subprocess.PIPE, text=True)
        server.end()
        process.end()
        if done.returncode:
            return None
        return {"GiB/s": json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 8 / GIB}

    aims = [("haproxy splice", "GiB/s", ">=", 1.5), ("haproxy splice with 1 MiB pipes", "GiB/s", ">=", 1.0)]
    bench.compare("iperf3: one connection, 3 s", bench.with_only(*SPLICING), ["GiB/s"], measure, aims)


def source(bench):
    path = bench.work / "source"
    if not path.exists():
        with open(path, "wb") as file, open("/dev/urandom", "rb") as noise:
            block = noise.read(8 << 20)
            for start in range(0, bench.options.file_size, len(block)):
                file.write(block[: bench.options.file_size - start])
    return path


def drain(connection):
    """Receives to the end, dropping bytes inside the kernel (MSG_TRUNC, tcp(7))."""
    nothing, total = bytearray(4 << 20), 0
    while got := connection.recv_into(nothing, len(nothing), socket.MSG_TRUNC):
        total += got
    return total


def file_out(bench):
    path, size = source(bench), bench.options.file_size
    port = free_port()
    contenders = bench.links("-u", str(path), f"tcp-listen:127.0.0.1:{port},reuseaddr")
    if shutil.which("nginx"):
        config = bench.work / "nginx.conf"
        config.write_text(NGINX.format(work=bench.work, listen=port))
        contenders["nginx sendfile"] = ["nginx", "-c", str(config)]

    def measure(argv):
        process = bench.process(argv, port)
        before = process.cpu_seconds()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            begun = time.perf_counter()
            if argv[0] == "nginx":
                connection.sendall(b"GET /source HTTP/1.0\r\n\r\n")
            total = drain(connection)
            seconds = time.perf_counter() - begun
            # Before it is closed here, so that the relay, which may end then, is still there.
            used = process.cpu_seconds() - before
        process.end()
        if total < size:
            return None
        return {"GiB/s": size / GIB / seconds, "relay s/GiB": used / (size / GIB)}

    aims = [("nginx sendfile", "GiB/s", ">=", 1.0)]
    name = f"file-out: {size} bytes from a cached file to a socket"
    bench.compare(name, contenders, ["GiB/s", "relay s/GiB"], measure, aims)


def file_in(bench):
    target, size = bench.work / "target", bench.options.file_size
    port = free_port()
    contenders = bench.links("-u", f"tcp-listen:127.0.0.1:{port},reuseaddr", f"file:{target},create,trunc")
    if shutil.which("socat"):
        contenders["socat -b 262144"] = [
            "socat", "-u", "-b", "262144",
            f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr", f"OPEN:{target},creat,trunc,wronly",
        ]
    memory = os.memfd_create("load")
    os.write(memory, os.urandom(64 << 20))

    def measure(argv):
        target.unlink(missing_ok=True)
        process = bench.process(argv, port)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            sent = 0
            while sent < size:
                at = sent % (64 << 20)
                sent += os.sendfile(connection.fileno(), memory, at, min(size - sent, (64 << 20) - at))
        ended = process.process.wait()
        seconds = time.perf_counter() - begun
        total = resource.getrusage(resource.RUSAGE_CHILDREN)
        process.end()
        if ended or target.stat().st_size != size:
            return None
        used = total.ru_utime + total.ru_stime - spent.ru_utime - spent.ru_stime
        return {"GiB/s": size / GIB / seconds, "relay s/GiB": used / (size / GIB)}

    aims = [("socat -b 262144", "GiB/s", ">=", 1.0)]
    name = f"file-in: {size} bytes from a socket to a new file"
    bench.compare(name, contenders, ["GiB/s", "relay s/GiB"], measure, aims)
    target.unlink(missing_ok=True)


CASES = {"bulk": bulk, "tls": tls, "file-out": file_out, "file-in": file_in, "many": many, "short": short, "pingpong": pingpong, "bodies": bodies, "iperf3": iperf3}

if __name__ == "__main__":
    main()
