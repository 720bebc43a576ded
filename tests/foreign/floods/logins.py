"""What floods of logins cost those who have logged in: honest STOMP clients on loopback, and clients beside them that log in
with credentials which have to be looked at.

    python3 tests/foreign/floods/logins.py target/release/tiderace
    python3 tests/foreign/floods/logins.py target/release/tiderace --json --rounds 9 --kinds password,callout-dead
    python3 tests/foreign/floods/logins.py target/release/tiderace --unbounded

A flood begins `--rate` logins a second, each on a connection of its own, whether those before were answered or not, and
takes a part of a core for that, which is printed. With `--unbounded` it logs in as fast as it is answered: then the programs
that make the flood take every core from everybody, and `flood/quiet` says how the cores are shared out, not what the server
does.

Each kind of flood has rounds of three sorts, in random order: `quiet` without a flood; `beside` with the same flood against a
second server of the same machine, which takes the processor from everybody as the flood does, but is not the one that is
measured; and `flood`. Of a round the 99th percentile of the time from a publisher's SEND to a subscriber's MESSAGE counts, of
a kind the medians of these. Printed are `flood/quiet`, `flood/beside`, the least of the rounds of each sort, the logins that
were begun, and what the server answered to them, by code. Logins of honest clients by a static token, one after the other
while the rounds run, are measured as well.

Kinds: `password` (argon2id of a user that is there), `jwt` (RS256 with a signature that is wrong), and call-outs to a server that
answers in 5 ms (`callout`), after 2 s (`callout-slow`), never (`callout-dead`), or is not there (`callout-gone`). What a
client measures, what floods, and the server that is asked are processes of their own. The program ends with 1 if
`flood/quiet`, or with `--unbounded` `flood/beside`, is above `--most`.
"""

import argparse
import base64
import collections
import json
import multiprocessing
import os
import random
import re
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
SUBSCRIBERS = 8
RATE = 1000
"""Logins a second of a flood; a thread of the server verifies some 40 passwords in that time."""
UNDER_WAY_MAX = 2000
"""Logins of a bounded flood that are not answered yet: more than may wait for a server that is slow (`auth_http.waiting_max`)."""
UNBOUNDED = (2, 32)
"""Processes of an unbounded flood, and logins that each has under way."""
SETTLE = 1.0
"""Seconds of a round before it counts."""
SAMPLES_MIN = 2000
"""Deliveries of a round, fewer of which say nothing about a 99th percentile."""

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
    """Answers questions about logins after a time, or never; it refuses everybody. A process of its own, since threads of
    Python take turns, and those here would take them from the client that measures."""

    def __init__(self, kind):
        self.delay = {"callout": 0.005, "callout-slow": 2.0}.get(kind)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.process = None
        if kind == "callout-gone":
            self.listener.close()
        elif self.delay is not None:
            self.process = multiprocessing.Process(target=self.accept, daemon=True)
            self.process.start()

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

    def end(self):
        self.listener.close()
        if self.process:
            self.process.kill()
            self.process.join()


class Server:
    """A server of ours, and what it asks about logins. Its log, which tells of each login, goes into a file that nobody reads
    while rounds run."""

    def __init__(self, program, directory, kind):
        self.asked = LoginServer(kind)
        name = f"{directory}/tiderace-{random.getrandbits(32):x}"
        with open(f"{name}.toml", "w", encoding="utf-8") as out:
            out.write(CONFIG.format(directory=directory, port=self.asked.port))
        command = [program, "serve", "--config", f"{name}.toml"]
        with open(f"{name}.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        self.address = self.listening(f"{name}.log")

    def listening(self, log):
        """The address that its log tells when it has started."""
        with open(log, encoding="utf-8") as lines:
            address, text = None, ""
            while self.process.poll() is None:
                text += lines.readline()
                if not text.endswith("\n"):
                    time.sleep(0.01)
                    continue
                said, text = json.loads(text), ""
                if said.get("event") == "listening":
                    host, port = said["address"].rsplit(":", 1)
                    address = (host, int(port))
                if said.get("event") == "server-started" and address:
                    return address
        raise SystemExit("the server did not start")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.asked.end()


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


class Flood:
    """Clients that log in, each on a connection of its own, in a process of its own."""

    def __init__(self, kind, address, rate, under_way_max):
        self.kind, self.address, self.rate, self.under_way_max = kind, address, rate, under_way_max
        self.is_over = multiprocessing.Event()
        self.result, self.told = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=self.run, daemon=True)
        self.process.start()

    def end(self):
        """Logins that were begun, answers by their code, the share of a core that this took, and its seconds."""
        self.is_over.set()
        result = self.result.recv()
        self.process.join()
        return result

    def run(self):
        self.live = selectors.DefaultSelector()
        self.numbers = iter(range(random.getrandbits(40) << 20, sys.maxsize))
        self.due = self.begun = 0
        self.answers = collections.Counter()
        begin, processor = time.monotonic(), time.process_time()
        while not self.is_over.is_set():
            wait = self.begin_those_due(time.monotonic() - begin)
            for key, events in self.live.select(wait):
                self.go_on(key.fileobj, events)
        took = time.monotonic() - begin
        self.told.send((self.begun, self.answers, (time.process_time() - processor) / took, took))

    def begin_those_due(self, elapsed):
        """Begins logins, and says how long it is to the next. What there is no room for is not made up for."""
        room = self.under_way_max - len(self.live.get_map())
        many = room if self.rate is None else int(elapsed * self.rate) - self.due
        self.due += many
        for _ in range(min(many, room)):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(self.address)
            self.live.register(one, selectors.EVENT_WRITE)
            self.begun += 1
        return 0.1 if self.rate is None else min(0.1, max(0, (self.due + 1) / self.rate - elapsed))

    def go_on(self, one, events):
        try:
            if events & selectors.EVENT_WRITE:
                one.send(shown_by(self.kind, next(self.numbers)))
                self.live.modify(one, selectors.EVENT_READ)
                return
            code = re.search(rb"\ncode:([a-z-]+)", one.recv(4096))
            self.answers[code[1].decode() if code else "no code"] += 1
        except OSError:
            self.answers["connection lost"] += 1
        self.live.unregister(one)
        one.close()


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
            is_over.wait(0.02)

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
    """What the rounds of one kind of flood come to."""
    server, other = (Server(program, directory, kind) for _ in range(2))
    honest = Honest(server.address, arguments.publish)
    processes, under_way_max = UNBOUNDED if arguments.unbounded else (1, UNDER_WAY_MAX)
    rate = None if arguments.unbounded else arguments.rate
    places = {"quiet": None, "beside": other.address, "flood": server.address}
    rounds = {sort: {"p99": [], "login_p99": [], "floods": [], "samples": []} for sort in places}
    try:
        honest.round(0.5)
        for _ in range(arguments.rounds):
            for sort in random.sample(list(places), len(places)):
                address, of_sort = places[sort], rounds[sort]
                many = range(processes if address else 0)
                flooders = [Flood(kind, address, rate, under_way_max) for _ in many]
                latencies, logins = honest.round(arguments.seconds)
                of_sort["floods"] += [one.end() for one in flooders]
                of_sort["samples"].append(len(latencies))
                of_sort["p99"].append(p99(latencies))
                of_sort["login_p99"].append(p99(logins))
    finally:
        server.end()
        other.end()
    return result_of(kind, rounds, processes)


def result_of(kind, rounds, processes):
    samples = min(min(of["samples"]) for of in rounds.values())
    if samples < SAMPLES_MIN:
        raise SystemExit(f"{kind}: a round had {samples} deliveries, at least {SAMPLES_MIN} are needed")
    median = {sort: statistics.median(of["p99"]) * 1000 for sort, of in rounds.items()}
    # What else runs on the machine only adds: the least of the rounds is the one that it has disturbed least.
    least = {sort: min(of["p99"]) * 1000 for sort, of in rounds.items()}
    login = {sort: statistics.median(of["login_p99"]) * 1000 for sort, of in rounds.items()}
    begun, answers, shares, times = zip(*rounds["flood"]["floods"])
    return {
        "kind": kind,
        "quiet_ms": median["quiet"],
        "beside_ms": median["beside"],
        "flood_ms": median["flood"],
        "least_ms": least,
        "flood_to_quiet": median["flood"] / median["quiet"],
        "flood_to_beside": median["flood"] / median["beside"],
        "login_quiet_ms": login["quiet"],
        "login_flood_ms": login["flood"],
        "begun": sum(begun),
        "begun_per_second": sum(begun) / sum(times) * processes,
        "answers": dict(sum(answers, collections.Counter()).most_common()),
        "generator_cores": statistics.mean(shares) * processes,
        "samples_min": samples,
    }


def line_of(result):
    answers = {**result["answers"], "not answered yet": result["begun"] - sum(result["answers"].values())}
    answers = ", ".join(f"{many} {code}" for code, many in answers.items() if many)
    return (
        f"{result['kind']:13} p99 quiet {result['quiet_ms']:6.2f} ms, beside {result['beside_ms']:6.2f} ms, "
        f"flood {result['flood_ms']:6.2f} ms; flood/quiet {result['flood_to_quiet']:.2f}, "
        f"flood/beside {result['flood_to_beside']:.2f}; least of the rounds {result['least_ms']['quiet']:.2f}, "
        f"{result['least_ms']['beside']:.2f} and {result['least_ms']['flood']:.2f} ms; a login {result['login_quiet_ms']:.1f} ms quiet, "
        f"{result['login_flood_ms']:.1f} ms in the flood; {result['begun']} logins begun "
        f"({result['begun_per_second']:.0f}/s): {answers}; the flood takes {result['generator_cores']:.2f} of a core; "
        f"{result['samples_min']} deliveries a round or more"
    )


def write_secrets(directory):
    for name, text in {"password": "swordfish", "token": HONEST}.items():
        with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{directory}/{name}", 0o600)
    key = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", f"{directory}/private.pem"]
    subprocess.run(key, check=True, capture_output=True)
    public = ["openssl", "pkey", "-in", f"{directory}/private.pem", "-pubout", "-out", f"{directory}/key.pem"]
    subprocess.run(public, check=True, capture_output=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], add_help=True)
    parser.add_argument("program", help="the server's program")
    parser.add_argument("--kinds", default=",".join(KINDS), help="which floods, with commas between")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each sort (5)")
    parser.add_argument("--seconds", type=float, default=4, help="how long a round counts (4)")
    parser.add_argument("--publish", type=int, default=500, help="messages per second that are published (500)")
    parser.add_argument("--rate", type=float, default=RATE, help=f"logins per second of a flood ({RATE})")
    parser.add_argument("--unbounded", action="store_true", help="logins as fast as they are answered, not at a rate")
    parser.add_argument("--most", type=float, default=2, help="ratio above which the program fails (2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a kind")
    arguments = parser.parse_args()
    unknown = set(arguments.kinds.split(",")) - set(KINDS)
    if unknown:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    if arguments.rate <= 0:
        parser.error("--rate is above 0")
    # The publisher and the subscribers are threads of one process, which takes turns every 5 ms if nothing else is said.
    sys.setswitchinterval(0.0002)
    judged = "flood_to_beside" if arguments.unbounded else "flood_to_quiet"
    is_good = True
    with tempfile.TemporaryDirectory() as directory:
        write_secrets(directory)
        for kind in arguments.kinds.split(","):
            result = measure(kind, arguments.program, directory, arguments)
            is_good &= result[judged] <= arguments.most
            print(json.dumps(result) if arguments.json else line_of(result), flush=True)
    if not arguments.json:
        load = " ".join(f"{load:.1f}" for load in os.getloadavg())
        print(f"load of the machine over 1, 5 and 15 minutes: {load}, of {os.cpu_count()} cores")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
