"""How evenly a drain spreads its goodbyes: many STOMP clients on loopback, one drain, a count for each second.

    python3 tests/foreign/drain/evenness.py target/release/tiderace --connections 10000 --over 60

Prints the span between the first and the last goodbye and the most of a second over the mean, and fails if the span is
more than a tenth from what was asked for, the ratio above 1.5, or a client was not told.
"""

import argparse
import json
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time

CONFIG = """[server]
listen = ["127.0.0.1:0"]
shards = 2
[[listener]]
address = "127.0.0.1:0"
stays_open = true
"""


def start(program, directory):
    """The server, the address of its clients and that of its operator."""
    config = f"{directory}/tiderace.toml"
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG)
    command = [program, "serve", "--config", config]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    addresses = []
    for line in server.stderr:
        said = json.loads(line)
        if said.get("event") == "listening":
            host, port = said["address"].rsplit(":", 1)
            addresses.append((host, int(port)))
        if said.get("event") == "server-started":
            return server, *addresses
    sys.exit("the server has ended instead of starting")


def connect(address, count):
    """Clients that have logged in."""
    clients = []
    while len(clients) < count:
        some = [socket.create_connection(address) for _ in range(min(500, count - len(clients)))]
        for client in some:
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        for client in some:
            answer = b""
            while not answer.endswith(b"\0"):
                answer += client.recv(4096)
            assert answer.startswith(b"CONNECTED"), answer
        clients += some
    return clients


def listen(clients, timeout):
    """When each of the clients was told to go."""
    selector = selectors.DefaultSelector()
    for client in clients:
        client.setblocking(False)
        selector.register(client, selectors.EVENT_READ)
    told, until = [], time.monotonic() + timeout
    while selector.get_map() and time.monotonic() < until:
        for key, _ in selector.select(timeout=1):
            data = key.fileobj.recv(4096)
            if b"code:draining" in data:
                told.append(time.monotonic())
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--over", type=int, default=60, help="seconds")
    arguments = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as directory:
        server, clients_at, (host, port) = start(arguments.program, directory)
        try:
            clients = connect(clients_at, arguments.connections)
            drain = [arguments.program, "drain", "-s", f"{host}:{port}", "--no-wait"]
            drain += ["--over", f"{arguments.over}s", "--delay", "0s"]
            subprocess.run(drain, check=True, stdout=subprocess.DEVNULL)
            told = listen(clients, arguments.over + 30)
        finally:
            server.kill()
            server.wait()
    span = told[-1] - told[0]
    seconds = [0] * arguments.over
    for at in told:
        seconds[min(int(at - told[0]), arguments.over - 1)] += 1
    ratio = max(seconds) / (len(told) / arguments.over)
    print(f"{len(told)} of {arguments.connections} told, {span:.1f} s of {arguments.over} s, "
          f"most of a second over the mean: {ratio:.2f}")
    is_even = abs(span - arguments.over) <= arguments.over / 10 and ratio <= 1.5
    sys.exit(0 if is_even and len(told) == arguments.connections else 1)


if __name__ == "__main__":
    main()
