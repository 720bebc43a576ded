"""Messages that are too large for memory, by clients written by others and by bare sockets.

Bodies are told apart by their digests. Waits only bound failure.
"""

import hashlib
import json
import queue as queues
import socket
import ssl
import threading
import time
import urllib.request

import pytest
import rswire as rs
import stomp
import websocket
from bodies import BLOCK, SECURED, WAIT, Raw, digest, refused
from conftest import MIB


class Listener(stomp.ConnectionListener):
    def __init__(self):
        self.got = queues.Queue()

    def on_message(self, frame):
        self.got.put(frame)

    def on_error(self, frame):
        self.got.put(frame)

    def on_disconnected(self):
        self.got.put(None)


def stomp_py(port, **options):
    connection = stomp.Connection12([("127.0.0.1", port)], auto_decode=False, **options)
    listener = Listener()
    connection.set_listener("", listener)
    connection.connect(wait=True)
    return connection, listener.got


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_message_goes_from_file_to_clients_and_not_through_memory(serve, kind):
    server, count = serve(), 1 if kind == "queue" else 8
    destination = f"/{kind}/videos"
    consumers = [Raw(server.port) for _ in range(count)]
    for one in consumers:
        one.subscribe(destination)
    producer = Raw(server.port)
    # What a first message of any size makes the server keep for later ones.
    producer.send(destination, 1)
    assert all(one.frame()[2] == MIB for one in consumers)
    before, peak, done = server.anonymous(), [0], threading.Event()

    def watch():
        while not done.wait(0.005):
            peak[0] = max(peak[0], server.anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    producer.send(destination, 256, receipt="r", genre="documentary")
    assert producer.frame()[:2] == ("RECEIPT", {"receipt-id": "r"})
    wanted = digest(256)
    for one in consumers:
        command, headers, length, found = one.frame()
        assert (command, headers["genre"], length, found) == ("MESSAGE", "documentary", 256 * MIB, wanted)
    done.set()
    watcher.join()
    assert peak[0] - before <= 8 * MIB, (before, peak)
    # The file goes with the last who needs it.
    server.until("tiderace_large_message_bytes", 0)
    assert server.metric('tiderace_large_messages_total{outcome="whole"}') == 2


def test_stomp_py_sends_and_gets_large_messages(serve):
    server = serve()
    sender, _ = stomp_py(server.port)
    receiver, got = stomp_py(server.port)
    receiver.subscribe("/queue/files", id=1, ack="client-individual")
    body = BLOCK * 6
    for number in range(3):
        sender.send("/queue/files", body[number:], headers={"number": str(number)})
    for number in range(3):
        frame = got.get(timeout=WAIT)
        assert frame.headers["number"] == str(number)
        assert frame.body == body[number:]
        receiver.ack(frame.headers["ack"])
    server.until("tiderace_large_message_bytes", 0)
    sender.disconnect()
    receiver.disconnect()


@pytest.mark.parametrize("fragments", [1, 7, 3000])
def test_a_large_message_comes_by_websocket_in_any_pieces(serve, fragments):
    server = serve()
    consumer = Raw(server.port)
    consumer.subscribe("/topic/files")
    url = f"ws://127.0.0.1:{server.port}/stomp"
    client = websocket.create_connection(url, subprotocols=["v12.stomp"], timeout=WAIT)
    client.send("CONNECT\naccept-version:1.2\nhost:x\n\n\0")
    assert client.recv().startswith("CONNECTED")
    body = BLOCK * 20
    head = f"SEND\ndestination:/topic/files\nreceipt:r\ncontent-length:{len(body)}\n\n".encode()
    # Another frame follows in the same message.
    whole = head + body + b"\0" + b"SEND\ndestination:/topic/files\n\nbehind\0"
    step = len(whole) // fragments + 1
    parts = [whole[at : at + step] for at in range(0, len(whole), step)]
    for number, part in enumerate(parts):
        opcode = websocket.ABNF.OPCODE_BINARY if number == 0 else websocket.ABNF.OPCODE_CONT
        last = number == len(parts) - 1
        client.send_frame(websocket.ABNF.create_frame(part, opcode, 1 if last else 0))
        if number == 1:
            client.ping("still here")
    assert consumer.frame()[2:] == (len(body), hashlib.sha256(body).hexdigest())
    assert consumer.frame()[2] == len("behind")
    assert client.recv().startswith("RECEIPT")
    # And back by WebSocket.
    client.send("SUBSCRIBE\nid:0\ndestination:/topic/back\nreceipt:s\n\n\0")
    assert client.recv().startswith("RECEIPT")
    consumer.send("/topic/back", 20)
    _, _, found = client.recv().partition(b"\n\n")
    assert hashlib.sha256(found[:-1]).hexdigest() == digest(20)
    client.close()
    server.until("tiderace_large_message_bytes", 0)


def test_who_gives_up_midway_leaves_nothing(serve):
    server = serve("uploads_max = 8\nuser_uploads_max = 8")
    for _ in range(200):
        one = Raw(server.port)
        one.begin("/queue/never", 100 * MIB)
        one.socket.sendall(BLOCK[: 300 << 10])
        one.close()
    server.until("tiderace_large_messages_arriving", 0)
    server.until("tiderace_large_message_bytes", 0)
    consumer = Raw(server.port)
    consumer.subscribe("/queue/never")
    consumer.send("/queue/never", 5)
    assert consumer.frame()[2:] == (5 * MIB, digest(5))


def test_more_than_may_arrive_at_once_is_refused_and_others_go_on(serve):
    server = serve("uploads_max = 4\nuser_uploads_max = 3")
    others = Raw(server.port)
    others.subscribe("/topic/small")
    slow = []
    for _ in range(3):
        one = Raw(server.port)
        one.begin("/queue/slow", 10 * MIB)
        one.socket.sendall(BLOCK[: 300 << 10])
        slow.append(one)
    server.until("tiderace_large_messages_arriving", 3)
    late = Raw(server.port)
    late.begin("/queue/slow", 10 * MIB)
    late.socket.sendall(BLOCK[: 300 << 10])
    assert refused(late) == "large-messages-full"
    others.command("SEND", destination="/topic/small")
    assert others.frame()[0] == "MESSAGE"
    # Those that had begun end as if nothing had been.
    for one in slow:
        one.socket.sendall(BLOCK[300 << 10 :] + BLOCK * 9 + b"\0")
    consumer = Raw(server.port)
    consumer.subscribe("/queue/slow")
    for _ in slow:
        assert consumer.frame()[2:] == (10 * MIB, digest(10))


@pytest.mark.parametrize("option", ["disk_bytes_max", "user_bytes_max"])
def test_the_disk_is_not_filled(serve, option):
    server = serve(f'{option} = "32 MiB"')
    producer = Raw(server.port)
    for _ in range(3):
        producer.send("/queue/kept", 10, receipt="r")
        assert producer.frame()[0] == "RECEIPT"
    producer.begin("/queue/kept", 10 * MIB, receipt="r")
    with pytest.raises((OSError, EOFError, AssertionError)):
        for _ in range(10):
            producer.socket.sendall(BLOCK)
        producer.socket.sendall(b"\0")
        assert refused(producer) != "large-messages-full"
    assert server.metric("tiderace_large_message_bytes") <= 32 * MIB
    consumer = Raw(server.port)
    consumer.subscribe("/queue/kept")
    for _ in range(3):
        assert consumer.frame()[3] == digest(10)
    server.until("tiderace_large_message_bytes", 0)
    consumer.send("/queue/kept", 10)
    assert consumer.frame()[3] == digest(10)


def test_what_is_larger_than_allowed_is_refused_before_it_comes(serve):
    server = serve('bytes_max = "20 MiB"')
    client = Raw(server.port)
    client.begin("/queue/a", 20 * MIB + 1)
    assert refused(client) == "frame-too-large"
    # A length must be announced.
    client = Raw(server.port)
    client.socket.sendall(b"SEND\ndestination:/queue/a\n\n")
    with pytest.raises((ConnectionError, AssertionError)):
        for _ in range(6):
            client.socket.sendall(b"x" * MIB)
        assert refused(client) != "frame-too-large"
    # So it is before the login.
    early = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT)
    early.sendall(b"CONNECT\naccept-version:1.2\nhost:x\ncontent-length:10000000\n\n" + b"x" * 1000)
    assert b"frame-too-large" in early.recv(65536)


def test_a_beating_client_is_not_silent_while_its_message_comes_slowly(serve):
    server = serve()
    client = Raw(server.port, heart_beat="500,0")
    client.begin("/queue/slow", 2 * MIB, receipt="r")
    # For longer, in all, than the client may be silent.
    for at in range(0, MIB, MIB // 16):
        client.socket.sendall(BLOCK[at : at + MIB // 16])
        time.sleep(0.3)
    client.socket.sendall(BLOCK + b"\0")
    assert client.frame()[:2] == ("RECEIPT", {"receipt-id": "r"})


def test_a_message_that_was_not_acknowledged_comes_again_from_its_file(serve):
    server = serve()
    producer = Raw(server.port)
    producer.send("/queue/again", 12)
    first = Raw(server.port)
    first.subscribe("/queue/again", ack="client")
    # It reads some, and is gone.
    first.socket.recv(1 << 16)
    first.close()
    second = Raw(server.port)
    second.subscribe("/queue/again", ack="client")
    command, headers, length, found = second.frame()
    assert (length, found) == (12 * MIB, digest(12))
    second.command("NACK", id=headers["ack"])
    command, headers, length, found = second.frame()
    assert (headers["redelivered"], found) == ("true", digest(12))
    second.command("ACK", id=headers["ack"], receipt="a")
    assert second.frame()[0] == "RECEIPT"
    server.until("tiderace_large_message_bytes", 0)


def test_dead_letters_and_moves_keep_the_body_in_its_file(serve):
    server = serve()
    client = Raw(server.port)
    client.send("/queue/poison", 12)
    client.subscribe("/queue/poison", ack="client-individual")
    for _ in range(3):
        _, headers, *_ = client.frame()
        client.command("NACK", id=headers["ack"])
    dead = Raw(server.port)
    dead.subscribe("/queue/dlq.poison")
    _, headers, length, found = dead.frame()
    assert headers["dead-letter-reason"] == "redeliveries"
    assert (length, found) == (12 * MIB, digest(12))
    server.until("tiderace_large_message_bytes", 0)


def test_a_retained_value_lies_in_a_file_until_it_is_replaced(serve):
    server = serve()
    client = Raw(server.port)
    client.send("/topic/map", 12, retain="set", receipt="r")
    assert client.frame()[0] == "RECEIPT"
    assert server.metric("tiderace_large_message_bytes") >= 12 * MIB
    late = Raw(server.port)
    late.subscribe("/topic/map")
    assert late.frame()[2:] == (12 * MIB, digest(12))
    client.command("SEND", destination="/topic/map", retain="set")
    server.until("tiderace_large_message_bytes", 0)


def test_what_has_to_be_in_memory_is_taken_there_or_refused(serve):
    server = serve(more='\n[[topic]]\nmatch = "typed/**"\ntype = "json"\n')
    body = json.dumps(["x" * 1000] * 1000).encode()
    client = Raw(server.port)
    client.begin("/topic/typed/a", len(body), receipt="r")
    client.socket.sendall(body + b"\0")
    assert client.frame()[0] == "RECEIPT"
    client.send("/topic/typed/a", 1, receipt="r")
    assert refused(client) == "bad-value"
    client = Raw(server.port)
    client.send("/topic/typed/a", 5, receipt="r")
    assert refused(client) == "body-too-large"
    # Without a store nothing persists, however large it is.
    client = Raw(server.port)
    client.send("/queue/kept", 5, persistent="true", receipt="r")
    assert refused(client) == "no-store"


def test_who_cannot_carry_it_does_not_get_it_and_nothing_is_lost(serve):
    server = serve()
    url = f"http://127.0.0.1:{server.port}/events?topic=files"
    events = urllib.request.urlopen(url, timeout=WAIT)
    reader = Raw(server.port)
    reader.subscribe("/topic/files")
    client = Raw(server.port)
    client.send("/topic/files", 20)
    client.command("SEND", destination="/topic/files", **{"content-type": "text/plain"})
    assert reader.frame()[3] == digest(20)
    assert reader.frame()[2] == 0
    lines = []
    while not any(line.startswith(b"data") for line in lines):
        lines.append(events.readline())
    assert sum(map(len, lines)) < 10_000
    dropped = 'tiderace_messages_dropped_total{reason="too-large-for-protocol"}'
    server.until(dropped, 1)
    server.until("tiderace_large_message_bytes", 0)


def test_small_messages_pass_large_ones(serve):
    """Others' messages while a large one is on its way to many: a shard does not write it in one go."""
    server = serve()
    consumers = [Raw(server.port) for _ in range(4)]
    for one in consumers:
        one.subscribe("/topic/large")
    pinger = Raw(server.port)
    pinger.subscribe("/topic/ping")
    done, threads = [], []
    for one in consumers:
        thread = threading.Thread(target=lambda one=one: done.append(one.frame()[2]))
        thread.start()
        threads.append(thread)
    producer = Raw(server.port)
    sender = threading.Thread(target=lambda: producer.send("/topic/large", 256))
    sender.start()
    pings = 0
    while len(done) < 4:
        pinger.command("SEND", destination="/topic/ping")
        assert pinger.frame()[0] == "MESSAGE"
        pings += 1
    sender.join()
    for thread in threads:
        thread.join()
    assert done == [256 * MIB] * 4
    assert pings > 100, pings


def test_a_large_message_comes_and_goes_by_tls(serve):
    server = serve(more=SECURED)
    consumer = Raw(server.port, secure=True)
    consumer.subscribe("/queue/files")
    producer = Raw(server.port, secure=True)
    # Another frame follows each, in the same records.
    for mib in (1, 20, 3):
        producer.begin("/queue/files", mib * MIB, receipt="r")
        producer.socket.sendall(BLOCK * mib + b"\0" + b"SEND\ndestination:/queue/files\n\nbehind\0")
        assert producer.frame()[:2] == ("RECEIPT", {"receipt-id": "r"})
        assert consumer.frame()[2:] == (mib * MIB, digest(mib))
        assert consumer.frame()[2] == len("behind")
    client = websocket.create_connection(
        f"wss://127.0.0.1:{server.port}/stomp", subprotocols=["v12.stomp"], timeout=WAIT,
        sslopt={"cert_reqs": ssl.CERT_NONE, "check_hostname": False},
    )
    client.send("CONNECT\naccept-version:1.2\nhost:x\n\n\0")
    assert client.recv().startswith("CONNECTED")
    head = f"SEND\ndestination:/queue/files\ncontent-length:{5 * MIB}\n\n".encode()
    client.send_binary(head + BLOCK * 5 + b"\0")
    assert consumer.frame()[2:] == (5 * MIB, digest(5))
    server.until("tiderace_large_message_bytes", 0)


def test_a_resumed_session_does_not_go_on_with_what_its_former_connection_had_begun(serve):
    server = serve("uploads_max = 4")
    consumer = Raw(server.port)
    consumer.subscribe("/topic/files")
    large = rs.request(rs.REQUEST_FNF, 1, b"x" * MIB, rs.route("topic:files"))
    for number in range(12):
        token = b"token-of-a-session-%02d" % number
        first = rs.Client().login(b"", token=token)
        first.raw(first.carrier.encode(large)[: 400 << 10])
        server.until("tiderace_large_messages_arriving", 1)
        if number % 2:
            # The server hears of the end first.
            first.close()
        second = rs.Client()
        second.send(rs.resume(token))
        assert second.read().type == rs.RESUME_OK
        server.until("tiderace_large_messages_arriving", 0)
        second.send(rs.request(rs.REQUEST_FNF, 3, b"%d" % number, rs.route("topic:files")))
        assert consumer.frame()[2] == len(b"%d" % number)
        second.close()
    server.until("tiderace_large_message_bytes", 0)


def test_pings_do_not_keep_an_upload_that_stands_still(serve):
    server = serve()
    text = server.config.read_text().replace("[limits]", '[limits]\nframe_timeout = "1s"')
    server.config.write_text(text)
    server.kill()
    server.start()
    client = websocket.create_connection(
        f"ws://127.0.0.1:{server.port}/stomp", subprotocols=["v12.stomp"], timeout=WAIT
    )
    client.send("CONNECT\naccept-version:1.2\nhost:x\n\n\0")
    assert client.recv().startswith("CONNECTED")
    head = f"SEND\ndestination:/queue/a\ncontent-length:{5 * MIB}\n\n".encode()
    begun = websocket.ABNF.create_frame(head + BLOCK, websocket.ABNF.OPCODE_BINARY, 0)
    client.send_frame(begun)
    server.until("tiderace_large_messages_arriving", 1)
    deadline = time.monotonic() + WAIT
    while server.metric("tiderace_large_messages_arriving"):
        assert time.monotonic() < deadline, "it is kept by pings"
        try:
            client.ping("still here")
        except (OSError, websocket.WebSocketException):
            pass
