"""What floods of logins cost those who have logged in: honest STOMP clients on loopback, and clients beside them that log in
with credentials which have to be looked at, as fast as they are answered.

    python3 tests/foreign/floods/logins.py target/release/tiderace
    python3 tests/foreign/floods/logins.py target/release/tiderace --json --rounds 9 --kinds password,callout-dead

Each kind of flood has rounds of three sorts, in turns: `quiet` without a flood; `beside` with the same flood against a second
server of the same machine, which takes the processor from everybody as the flood does, but is not the one that is measured;
and `flood`. Of a round the 99th percentile of the time from a publisher's SEND to a subscriber's MESSAGE counts, of a kind
the medians of these. Printed are `flood/quiet`, and `flood/beside`, which is what the server's own threads and queues
are answerable for. Logins of honest clients by a static token, one after the other while the rounds run, are measured as well.

Kinds: `password` (argon2id of a user that is there), `jwt` (RS256 with a signature that is wrong), and call-outs to a server that
answers in 5 ms (`callout`), after 2 s (`callout-slow`), never (`callout-dead`), or is not there (`callout-gone`). The program ends with 1
if a `flood/beside` is above `--most`.
"""

import argparse
import base64
import json
import multiprocessing
import os
import random
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

KINDS = ["password", "jwt", "callout", "callout-slow", "callout-dead", "callout-gone"]
HONEST = "the token of an honest client"
SUBSCRIBERS = 20
FLOODERS = 2
"""Processes; each is a part of the flood."""
AT_ONCE = 32
"""Logins that each of them has under way."""
SETTLE = 0.5
"""Seconds of a round before it counts."""

CONFIG = """[server]
listen = ["127.0.0.1:0"]
shards = 2
[auth]
login_failures_max = 0
[[user]]
name = "victim"
password = "file:{directory}/password"
[[token]]
name = "honest"
secret = "file:{directory}/token"
[[jwt]]
name = "id"
public_key = "{directory}/key.pem"
algorithms = ["RS256"]
[auth_http]
login_url = "http://127.0.0.1:{port}/login"
timeout = "3s"
[[rule]]
allow = ["publish", "subscribe"]
principals = ["*"]
"""


class LoginServer:
    """Answers questions about logins after a time, or never; it refuses everybody."""

    def __init__(self, delay):
        self.delay = delay
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        if delay is not None:
            threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            one, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(one,), daemon=True).start()

    def serve(self, one):
        body = b'{"allow":false}'
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with one, one.makefile("rb") as lines:
            try:
                while True:
                    length = 0
                    while (line := lines.readline()) not in (b"\r\n", b""):
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.split(b":")[1])
                    if not line:
                        return
                    lines.read(length)
                    time.sleep(self.delay)
                    one.sendall(answer)
            except OSError:
                return


class Server:
    """A server of ours, and what it asks about logins."""

    def __init__(self, program, directory, kind):
        delay = {"callout": 0.005, "callout-slow": 2.0}.get(kind)
        self.asked = LoginServer(delay)
        if kind == "callout-gone":
            self.asked.listener.close()
        file = f"{directory}/tiderace-{random.getrandbits(32):x}.toml"
        with open(file, "w", encoding="utf-8") as out:
            out.write(CONFIG.format(directory=directory, port=self.asked.port))
        command = [program, "serve", "--config", file]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.address = None
        for line in self.process.stderr:
            said = json.loads(line)
            if said.get("event") == "listening":
                host, port = said["address"].rsplit(":", 1)
                self.address = (host, int(port))
            if said.get("event") == "server-started":
                break
        if self.address is None:
            raise SystemExit("the server did not start")
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.asked.listener.close()


def frame(command, headers, body=b""):
    head = "".join(f"{name}:{value}\n" for name, value in headers.items())
    return f"{command}\n{head}\n".encode() + body + b"\0\n"


def connect_frame(**shown):
    return frame("CONNECT", {"accept-version": "1.2", "host": "localhost"} | shown)


def log_in(address):
    """An honest client that has logged in."""
    one = socket.create_connection(address, timeout=60)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.sendall(connect_frame(token=HONEST))
    answer = b""
    while b"\0" not in answer:
        answer += one.recv(4096) or b"\0"
    if not answer.startswith(b"CONNECTED"):
        raise SystemExit(f"an honest client was refused: {answer!r}")
    return one


def bad_jwt(number):
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
    claims = {"sub": f"u{number}", "exp": int(time.time()) + 600}
    signature = base64.urlsafe_b64encode(random.randbytes(256)).rstrip(b"=")
    return b".".join([part({"alg": "RS256"}), part(claims), signature]).decode()


def shown_by(kind, number):
    """What a client of the flood shows: something new each time, so that nothing is remembered."""
    if kind == "password":
        return connect_frame(login="victim", passcode=f"wrong-{number}")
    if kind == "jwt":
        return connect_frame(token=bad_jwt(number))
    return connect_frame(login=f"u{number}", passcode="wrong")


def flood(kind, address, tried, is_over):
    """Keeps many logins under way, each on a connection of its own, until it is over."""
    numbers = iter(range(random.getrandbits(40) << 20, sys.maxsize))
    with selectors.DefaultSelector() as live:

        def begin():
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(address)
            live.register(one, selectors.EVENT_WRITE)

        for _ in range(AT_ONCE):
            begin()
        while not is_over.is_set():
            for key, events in live.select(0.1):
                one = key.fileobj
                try:
                    if events & selectors.EVENT_WRITE:
                        one.send(shown_by(kind, next(numbers)))
                        live.modify(one, selectors.EVENT_READ)
                        continue
                    if one.recv(4096):
                        with tried.get_lock():
                            tried.value += 1
                except OSError:
                    pass
                live.unregister(one)
                one.close()
                begin()


class Honest:
    """A publisher, its subscribers, and what they measure."""

    def __init__(self, address, rate):
        self.address, self.rate = address, rate
        self.publisher = log_in(address)
        self.subscribers = [log_in(address) for _ in range(SUBSCRIBERS)]
        self.live = selectors.DefaultSelector()
        for one in self.subscribers:
            one.sendall(frame("SUBSCRIBE", {"id": "0", "destination": "/topic/ticks", "receipt": "0"}))
            answer = b""
            while b"\0" not in answer:
                answer += one.recv(4096)
            one.setblocking(False)
            self.live.register(one, selectors.EVENT_READ, bytearray())

    def publish(self, is_over):
        due = time.monotonic()
        while not is_over.is_set():
            stamp = str(time.monotonic_ns()).encode()
            self.publisher.sendall(frame("SEND", {"destination": "/topic/ticks"}, stamp))
            due = max(due + 1 / self.rate, time.monotonic() - 0.1)
            time.sleep(max(0, due - time.monotonic()))

    def keep_logging_in(self, took, is_over):
        while not is_over.is_set():
            begun = time.monotonic()
            log_in(self.address).close()
            took.append(time.monotonic() - begun)
            is_over.wait(0.05)

    def round(self, seconds):
        """The latencies of deliveries and of logins, in seconds."""
        is_over, latencies, logins = threading.Event(), [], []
        others = [
            threading.Thread(target=self.publish, args=(is_over,)),
            threading.Thread(target=self.keep_logging_in, args=(logins, is_over)),
        ]
        for other in others:
            other.start()
        begun = time.monotonic()
        while time.monotonic() < begun + SETTLE + seconds:
            for key, _ in self.live.select(0.1):
                key.data.extend(key.fileobj.recv(1 << 16))
                now = time.monotonic_ns()
                *whole, rest = bytes(key.data).split(b"\0")
                key.data[:] = rest
                for message in whole:
                    stamp = int(message.rsplit(b"\n", 1)[1])
                    if stamp > (begun + SETTLE) * 1e9:
                        latencies.append((now - stamp) / 1e9)
        is_over.set()
        for other in others:
            other.join()
        return latencies, logins


def p99(values):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] if ordered else float("nan")


def measure(kind, program, directory, arguments):
    """The medians of one kind of flood, by sort of round."""
    server, other = (Server(program, directory, kind) for _ in range(2))
    honest = Honest(server.address, arguments.rate)
    sorts = {"quiet": None, "beside": other.address, "flood": server.address}
    rounds = {sort: {"p99": [], "login_p99": [], "tried": []} for sort in sorts}
    try:
        honest.round(0.5)
        for number in range(arguments.rounds):
            for sort in random.Random(number).sample(list(sorts), len(sorts)):
                is_over, tried = multiprocessing.Event(), multiprocessing.Value("q", 0)
                flooders = []
                if sorts[sort]:
                    what = (kind, sorts[sort], tried, is_over)
                    flooders = [multiprocessing.Process(target=flood, args=what) for _ in range(FLOODERS)]
                for one in flooders:
                    one.start()
                latencies, logins = honest.round(arguments.seconds)
                is_over.set()
                for one in flooders:
                    one.join()
                rounds[sort]["p99"].append(p99(latencies))
                rounds[sort]["login_p99"].append(p99(logins))
                rounds[sort]["tried"].append(tried.value / (arguments.seconds + SETTLE))
    finally:
        server.end()
        other.end()
    medians = {sort: {name: statistics.median(all) for name, all in of.items()} for sort, of in rounds.items()}
    ratio = lambda name, to: medians["flood"][name] / medians[to][name]
    return {
        "kind": kind,
        "quiet_ms": medians["quiet"]["p99"] * 1000,
        "beside_ms": medians["beside"]["p99"] * 1000,
        "flood_ms": medians["flood"]["p99"] * 1000,
        "flood_to_quiet": ratio("p99", "quiet"),
        "flood_to_beside": ratio("p99", "beside"),
        "login_flood_to_beside": ratio("login_p99", "beside"),
        "login_flood_ms": medians["flood"]["login_p99"] * 1000,
        "tried_per_second": medians["flood"]["tried"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], add_help=True)
    parser.add_argument("program", help="the server's program")
    parser.add_argument("--kinds", default=",".join(KINDS), help="which floods, with commas between")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each sort (5)")
    parser.add_argument("--seconds", type=float, default=3, help="how long a round counts (3)")
    parser.add_argument("--rate", type=int, default=200, help="messages per second that are published (200)")
    parser.add_argument("--most", type=float, default=2, help="flood/beside above which the program fails (2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a kind")
    arguments = parser.parse_args()
    unknown = set(arguments.kinds.split(",")) - set(KINDS)
    if unknown:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    is_good = True
    with tempfile.TemporaryDirectory() as directory:
        for name, text in {"password": "swordfish", "token": HONEST}.items():
            with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(f"{directory}/{name}", 0o600)
        key = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", f"{directory}/private.pem"]
        subprocess.run(key, check=True, capture_output=True)
        public = ["openssl", "pkey", "-in", f"{directory}/private.pem", "-pubout", "-out", f"{directory}/key.pem"]
        subprocess.run(public, check=True, capture_output=True)
        for kind in arguments.kinds.split(","):
            result = measure(kind, arguments.program, directory, arguments)
            is_good &= result["flood_to_beside"] <= arguments.most
            if arguments.json:
                print(json.dumps(result), flush=True)
                continue
            print(
                f"{kind:13} p99 quiet {result['quiet_ms']:7.2f} ms, beside {result['beside_ms']:7.2f} ms, "
                f"flood {result['flood_ms']:7.2f} ms; flood/quiet {result['flood_to_quiet']:.2f}, "
                f"flood/beside {result['flood_to_beside']:.2f}; a login {result['login_flood_ms']:.1f} ms "
                f"({result['login_flood_to_beside']:.2f} of beside), {result['tried_per_second']:.0f} tried/s",
                flush=True,
            )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
