#!/usr/bin/env python3
"""Connections through a relay whose program is replaced again and again: what arrives, and how long it takes.

    bench/handover.py GUSH [--seconds 300] [--connections 1000] [--interval 5] [--message 16384] [--bulk] [--spread] [--haproxy]

Messages of 1 KiB (--message), 10 a second on each connection, go through the relay to a reader; each carries its time. With
--bulk as much goes as passes, in pieces of any length up to 64 messages: both processors are busy then, and a connection waits
for all others. SHA-256 of what was sent and what arrived are compared. A stall is the longest time that a message of a
connection took (with --bulk: that nothing came) in the second after a replacement; `otherwise` is the same for the seconds
before one. --spread opens a part of the connections in each interval, instead of all at the start. --haproxy reloads HAProxy
(SIGUSR2) instead, whose old processes keep their connections. Memory is that of all processes after the last replacement (Pss,
proc_pid_smaps(5)).
"""
import argparse
import bisect
import gc
import hashlib
import os
import random
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAUSE = 0.1
# Shorter gaps between two arrivals are not recorded.
GAP = 0.005


def send(port, connections, parts, seconds, message_bytes, bulk, result):
    block = os.urandom(message_bytes - 8)
    clients, hashes, due = [], [], []
    pick = selectors.DefaultSelector()
    begin = time.monotonic()
    end = begin + seconds

    def open_some():
        part = min(parts, 1 + int(parts * (time.monotonic() - begin) / seconds))
        for number in range(len(clients), connections * part // parts):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(struct.pack("q", number))
            clients.append(client)
            hashes.append(hashlib.sha256())
            due.append(time.monotonic() + PAUSE * number / connections)
            if bulk:
                client.setblocking(False)
                pick.register(client, selectors.EVENT_WRITE, number)

    if bulk:
        data = block * 64
        while time.monotonic() < end:
            open_some()
            for key, _ in pick.select(0.1):
                sent = key.fileobj.send(data[: random.randrange(1, len(data))])
                hashes[key.data].update(data[:sent])
    else:
        while time.monotonic() < end:
            open_some()
            for number, client in enumerate(clients):
                if (wait := due[number] - time.monotonic()) > 0:
                    time.sleep(wait)
                due[number] += PAUSE
                message = struct.pack("d", time.monotonic()) + block
                client.sendall(message)
                hashes[number].update(message)
    for client in clients:
        client.setblocking(True)
        client.shutdown(socket.SHUT_WR)
    result.write_text("\n".join(each.hexdigest() for each in hashes))
    for client in clients:
        client.recv(1)


def receive(listener, connections, message_bytes, bulk):
    """Hashes by number, and (arrival, delay, number) of each message."""
    pick = selectors.DefaultSelector()
    pick.register(listener, selectors.EVENT_READ, None)
    open_ones, hashes, resets, delays = 0, {}, 0, []
    seen = 0
    while seen < connections or open_ones:
        for key, _ in pick.select(1):
            if key.data is None:
                served, _ = listener.accept()
                number = struct.unpack("q", served.recv(8, socket.MSG_WAITALL))[0]
                hashes[number] = hashlib.sha256()
                pick.register(served, selectors.EVENT_READ, [number, b"", time.monotonic()])
                open_ones, seen = open_ones + 1, seen + 1
                continue
            state = key.data
            try:
                data = key.fileobj.recv(1 << 16)
            except ConnectionResetError:
                data, resets = b"", resets + 1
            if not data:
                pick.unregister(key.fileobj)
                key.fileobj.close()
                open_ones -= 1
                continue
            hashes[state[0]].update(data)
            now, rest = time.monotonic(), state[1] + data
            if bulk:
                if now - state[2] > GAP:
                    delays.append((now, now - state[2], state[0]))
                state[2] = now
                continue
            while len(rest) >= message_bytes:
                delays.append((now, now - struct.unpack_from("d", rest)[0], state[0]))
                rest = rest[message_bytes:]
            state[1] = rest
    return hashes, resets, delays


def p(share, values):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def memory_kib(pids):
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def stalls(delays, moments):
    """The longest delay of each connection within a second after each of these moments."""
    longest = {}
    for arrived, delay, number in delays:
        sent = arrived - delay
        # The last moment that is not more than half a second after the sending.
        at = bisect.bisect_right(moments, sent + 0.5) - 1
        if at >= 0 and sent < moments[at] + 1 and arrived >= moments[at]:
            longest[at, number] = max(longest.get((at, number), 0), delay)
    return list(longest.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gush")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--interval", type=float, default=5)
    parser.add_argument("--message", type=int, default=1024, help="bytes")
    parser.add_argument("--bulk", action="store_true")
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--haproxy", action="store_true")
    words = parser.parse_args()
    # A collection visits each delay recorded so far, and would count as a stall: 176 ms on a busy machine.
    gc.disable()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener_port = listener.getsockname()[1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        front = free.getsockname()[1]
    held = tempfile.TemporaryDirectory()
    log = open(Path(held.name) / "log", "w+")

    def start():
        command = [words.gush, "link", "--handover", f"{held.name}/over"]
        command += [f"tcp-listen:127.0.0.1:{front},fork,backlog=4096", f"tcp:127.0.0.1:{listener_port}"]
        if words.haproxy:
            command = ["haproxy", "-W", "-f", str(Path(__file__).with_name("haproxy.cfg"))]
        env = {**os.environ, "FRONT": str(front), "BACK": str(listener_port), "PIPE_BYTES": "65536"}
        return subprocess.Popen(command, stderr=log, env=env)

    running = [start()]
    deadline = time.monotonic() + 10
    # A connection would reach the reader.
    while f":{front:04X} 00000000:0000 0A" not in Path("/proc/net/tcp").read_text():
        if running[0].poll() is not None or time.monotonic() > deadline:
            running[0].kill()
            log.seek(0)
            sys.exit(f"{words.gush} does not listen:\n{log.read()}")
        time.sleep(0.05)
    result = Path(held.name) / "sent"
    sender = os.fork()
    if sender == 0:
        parts = int(words.seconds / words.interval) if words.spread else 1
        send(front, words.connections, parts, words.seconds, words.message, words.bulk, result)
        os._exit(0)
    replacer_moments = Path(held.name) / "moments"
    replacer = os.fork()
    if replacer == 0:
        # A child of this process starts the programs, and waits for the old ones.
        moments, end = [], time.monotonic() + words.seconds - words.interval
        time.sleep(words.interval)
        while time.monotonic() < end:
            moments.append(time.monotonic())
            if words.haproxy:
                os.kill(running[0].pid, signal.SIGUSR2)
            else:
                running.append(start())
            replacer_moments.write_text("\n".join(map(str, moments)))
            time.sleep(words.interval)
        # The first process is not this one's child.
        alive = [process.pid for process in running[1:] if process.poll() is None]
        if words.haproxy:
            master = running[0].pid
            alive = [master, *subprocess.run(["pgrep", "-P", str(master)], capture_output=True, text=True).stdout.split()]
        (Path(held.name) / "processes").write_text(f"{len(alive)} processes, {memory_kib(alive) / 1024:.1f} MiB")
        (Path(held.name) / "alive").write_text(" ".join(map(str, alive)))
        os._exit(0)
    hashes, resets, delays = receive(listener, words.connections, words.message, words.bulk)
    os.waitpid(replacer, 0)
    moments = [float(line) for line in replacer_moments.read_text().splitlines()]
    sent = result.read_text().splitlines()
    equal = sum(hashes[number].hexdigest() == each for number, each in enumerate(sent))
    print(f"{len(moments)} replacements, {resets} resets, {equal} of {len(sent)} connections equal by SHA-256")
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{(Path(held.name) / 'processes').read_text()}; load {load}")
    for name, shift in (("stall", 0.0), ("otherwise", -2.0)):
        found = stalls(delays, [moment + shift for moment in moments])
        if words.bulk:
            found += [0] * (len(moments) * words.connections - len(found))
        figures = ", ".join(f"{what} {1000 * p(share, found):.1f}" for what, share in (("p50", 0.5), ("p99", 0.99), ("most", 1)))
        print(f"{name}: {figures} ms")
    os.waitpid(sender, 0)
    # Of HAProxy the master alone: it ends the others.
    alive = (Path(held.name) / "alive").read_text().split()
    for pid in alive[:1] if words.haproxy else alive:
        os.kill(int(pid), signal.SIGTERM)
    log.seek(0)
    sys.stderr.write(log.read()[-2000:])
    return 0 if equal == len(sent) and not resets else 1


if __name__ == "__main__":
    sys.exit(main())
