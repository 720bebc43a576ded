"""What clients notice of a configuration that is read again while messages flow: many STOMP clients on loopback, of which half
lose the right to what they listen to.

    python3 tests/foreign/reload/under_load.py target/release/tiderace --connections 10000

Ten files that cannot be used come first, and must change nothing. Then the rules change: the program fails if a client that may
go on was dropped, if one that may not is there a second later, if a message of those who go on is missing, or if the server
took longer than that over a file that it refuses.
"""

import argparse
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOKENS = {"stays": "the token of who stays", "leaves": "the token of who leaves", "admin": "the token of the operator"}
RULES = """[[rule]]
allow = ["publish", "subscribe"]
principals = ["*"]
[[rule]]
allow = ["admin", "monitor"]
principals = ["user:admin"]
paths = ["$sys/**"]
"""
DENIED = '[[rule]]\ndeny = ["subscribe"]\nprincipals = ["user:leaves"]\npaths = ["feed"]\n'
BAD = [
    "this is no TOML",
    '[log]\nlevel = "loud"\n',
    "[nonsense]\n",
    '[[user]]\nname = "x"\n',
    '[[user]]\nname = "x"\npassword = "file:/does/not/exist"\n',
    '[[rule]]\nallow = ["fly"]\nprincipals = ["*"]\n',
    '[[jwt]]\nname = "x"\npublic_key = "/does/not/exist"\n',
    '[tls]\ncertificate = "/does/not/exist"\n',
    '[[limit]]\nprincipals = ["*"]\nmessages_per_second = -1\n',
    '[[token]]\nname = "x"\nsecret = "in clear"\n',
]


class Server:
    """The server, its configuration, and what it says."""

    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.file = f"{directory}/tiderace.toml"
        for name, token in TOKENS.items():
            with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
                file.write(token)
            os.chmod(f"{directory}/{name}", 0o600)
        self.write(RULES)
        self.process = subprocess.Popen([program, "serve", "--config", self.file], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            said = json.loads(line)
            if said.get("event") == "listening":
                host, port = said["address"].rsplit(":", 1)
                self.address = (host, int(port))
            if said.get("event") == "server-started":
                break
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def write(self, rules):
        tokens = "".join(f'[[token]]\nname = "{name}"\nsecret = "file:{self.directory}/{name}"\n' for name in TOKENS)
        text = f'[server]\nlisten = ["127.0.0.1:0"]\nshards = 2\n[auth]\nlogin_failures_max = 0\n{tokens}{rules}'
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text)

    def reload(self):
        host, port = self.address
        command = [self.program, "reload", "-s", f"{host}:{port}", "--passcode", TOKENS["admin"]]
        begun = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done, time.monotonic() - begun


def frame(command, headers, body=b""):
    head = "".join(f"{name}:{value}\n" for name, value in headers.items())
    return f"{command}\n{head}\n".encode() + body + b"\0"


def read_frame(client):
    answer = b""
    while b"\0" not in answer:
        answer += client.recv(4096) or sys.exit(f"a connection ended early: {answer!r}")
    return answer


def connect(address, name, count):
    """Clients that have logged in and listen."""
    clients = []
    while len(clients) < count:
        some = [socket.create_connection(address) for _ in range(min(250, count - len(clients)))]
        login = frame("CONNECT", {"accept-version": "1.2", "host": "localhost", "token": TOKENS[name]})
        listen = frame("SUBSCRIBE", {"id": "0", "destination": "/topic/feed", "receipt": "0"})
        for client in some:
            client.sendall(login + listen)
        for client in some:
            answer = read_frame(client)
            while b"RECEIPT" not in answer:
                answer += read_frame(client)
        clients += some
    return clients


class Publisher(threading.Thread):
    """Publishes numbers, so many a second."""

    def __init__(self, address, rate):
        super().__init__()
        self.rate, self.last, self.is_over = rate, 0, threading.Event()
        self.socket = socket.create_connection(address)
        self.socket.sendall(frame("CONNECT", {"accept-version": "1.2", "host": "localhost", "token": TOKENS["admin"]}))
        read_frame(self.socket)

    def run(self):
        while not self.is_over.wait(1 / self.rate):
            self.last += 1
            body = str(self.last).encode()
            self.socket.sendall(frame("SEND", {"destination": "/topic/feed", "receipt": "x"}, body))
            read_frame(self.socket)


class Watch:
    """What each client has got."""

    def __init__(self, groups):
        self.live = selectors.DefaultSelector()
        self.rest, self.numbers, self.ended, self.denied = {}, {}, {}, set()
        for name, clients in groups.items():
            for client in clients:
                client.setblocking(False)
                self.live.register(client, selectors.EVENT_READ, name)
                self.rest[client], self.numbers[client] = b"", []

    def look(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for key, _ in self.live.select(0.05):
                client = key.fileobj
                try:
                    data = client.recv(1 << 16)
                except ConnectionError:
                    data = b""
                if not data:
                    self.ended[client] = (key.data, time.monotonic())
                    self.live.unregister(client)
                    continue
                *whole, self.rest[client] = (self.rest[client] + data).split(b"\0")
                for one in whole:
                    if b"ERROR" in one and b"not-authorised" in one:
                        self.denied.add(client)
                    elif b"MESSAGE" in one:
                        self.numbers[client].append(int(one.rsplit(b"\n", 1)[1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the server's program")
    parser.add_argument("--connections", type=int, default=10_000, help="clients that listen (10000)")
    parser.add_argument("--rate", type=float, default=4, help="messages per second to all of them (4)")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as directory:
        server = Server(arguments.program, directory)
        publisher = None
        try:
            half = arguments.connections // 2
            groups = {name: connect(server.address, name, half) for name in ("stays", "leaves")}
            watch = Watch(groups)
            publisher = Publisher(server.address, arguments.rate)
            publisher.start()
            watch.look(1)
            slowest = 0
            for bad in BAD:
                server.write(RULES + DENIED + bad)
                done, took = server.reload()
                slowest = max(slowest, took)
                assert done.returncode == 3 and "bad-configuration" in done.stderr, (bad, done)
                watch.look(0.2)
            assert not watch.ended, f"{len(watch.ended)} clients were dropped for a file that was refused"
            server.write(RULES + DENIED)
            done, took = server.reload()
            assert done.returncode == 0, done
            begun = time.monotonic()
            watch.look(5)
            publisher.is_over.set()
            publisher.join()
            watch.look(2)
            gone = {name: [at for group, at in watch.ended.values() if group == name] for name in groups}
            late = max((at - begun for at in gone["leaves"]), default=0)
            missing = sum(
                1 for client in groups["stays"] if watch.numbers[client] != list(range(1, publisher.last + 1))
            )
            print(
                f"{len(BAD)} bad files: refused within {slowest * 1000:.0f} ms each; of {half} who lost a right {len(gone['leaves'])} "
                f"were told, the last {late:.2f} s after the answer ({took * 1000:.0f} ms); of {half} others {len(gone['stays'])} "
                f"were dropped and {missing} missed one of {publisher.last} messages"
            )
            is_good = len(gone["leaves"]) == half == len(watch.denied) and not gone["stays"] and not missing
            return 0 if is_good and late <= 1 else 1
        finally:
            if publisher:
                publisher.is_over.set()
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()


if __name__ == "__main__":
    sys.exit(main())
