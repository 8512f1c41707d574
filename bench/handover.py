#!/usr/bin/env python3
"""Connections through a relay whose program is replaced again and again: what arrives, and how long it takes.

    bench/handover.py GUSH [--seconds 300] [--connections 1000] [--interval 5] [--bulk] [--haproxy]

Messages of 1 KiB, 10 a second on each connection (or, with --bulk, as many as pass), go through the relay to a reader; each
carries its time. SHA-256 of what was sent and what arrived are compared. A stall is the longest time that a message of a
connection took in the second after a replacement; `otherwise` is the same for the seconds before one. --haproxy reloads
HAProxy (SIGUSR2) instead, whose old processes keep their connections.
"""
import argparse
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

MESSAGE = 1024
PAUSE = 0.1


def send(port, connections, seconds, bulk, result):
    block = os.urandom(MESSAGE - 8)
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    hashes = [hashlib.sha256() for _ in clients]
    for number, client in enumerate(clients):
        first = struct.pack("q", number)
        client.sendall(first)
    end = time.monotonic() + seconds
    if bulk:
        pick = selectors.DefaultSelector()
        for number, client in enumerate(clients):
            client.setblocking(False)
            pick.register(client, selectors.EVENT_WRITE, number)
        data = block * 64
        while time.monotonic() < end:
            for key, _ in pick.select(0.1):
                sent = key.fileobj.send(data[: random.randrange(1, len(data))])
                hashes[key.data].update(data[:sent])
    else:
        due = [time.monotonic() + PAUSE * number / connections for number in range(connections)]
        while (now := time.monotonic()) < end:
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


def receive(listener, connections, bulk):
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
                pick.register(served, selectors.EVENT_READ, [number, b""])
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
            if bulk:
                continue
            now, rest = time.monotonic(), state[1] + data
            while len(rest) >= MESSAGE:
                delays.append((now, now - struct.unpack_from("d", rest)[0], state[0]))
                rest = rest[MESSAGE:]
            state[1] = rest
    return hashes, resets, delays


def p(share, values):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def stalls(delays, moments):
    """The longest delay of each connection within a second after each of these moments."""
    longest = {}
    for arrived, delay, number in delays:
        sent = arrived - delay
        for at, moment in enumerate(moments):
            if moment - 0.5 <= sent < moment + 1 and arrived >= moment:
                longest[at, number] = max(longest.get((at, number), 0), delay)
    return list(longest.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gush")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--interval", type=float, default=5)
    parser.add_argument("--bulk", action="store_true")
    parser.add_argument("--haproxy", action="store_true")
    words = parser.parse_args()
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
    time.sleep(1)
    result = Path(held.name) / "sent"
    sender = os.fork()
    if sender == 0:
        send(front, words.connections, words.seconds, words.bulk, result)
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
        for process in running[1:-1]:
            process.wait(10)
        (Path(held.name) / "last").write_text(str(running[-1].pid))
        os._exit(0)
    hashes, resets, delays = receive(listener, words.connections, words.bulk)
    os.waitpid(replacer, 0)
    moments = [float(line) for line in replacer_moments.read_text().splitlines()]
    sent = result.read_text().splitlines()
    equal = sum(hashes[number].hexdigest() == each for number, each in enumerate(sent))
    print(f"{len(moments)} replacements, {resets} resets, {equal} of {len(sent)} connections equal by SHA-256")
    if words.haproxy:
        count = subprocess.run(["pgrep", "-c", "-P", str(running[0].pid)], capture_output=True, text=True).stdout.strip()
        print(f"{count} processes of HAProxy")
    for name, shift in (("stall", 0.0), ("otherwise", -2.0)) if not words.bulk else ():
        found = stalls(delays, [moment + shift for moment in moments])
        figures = ", ".join(f"{what} {1000 * p(share, found):.1f}" for what, share in (("p50", 0.5), ("p99", 0.99), ("most", 1)))
        print(f"{name}: {figures} ms")
    os.waitpid(sender, 0)
    last = running[0].pid if words.haproxy else int((Path(held.name) / "last").read_text())
    os.kill(last, signal.SIGTERM)
    log.seek(0)
    sys.stderr.write(log.read()[-2000:])
    return 0 if equal == len(sent) and not resets else 1


if __name__ == "__main__":
    sys.exit(main())
