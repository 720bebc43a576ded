"""Large messages that are to survive: in files of the store, whatever ends the server.

Bodies are told apart by their digests. Waits only bound failure.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from bodies import BLOCK, WAIT, Raw, digest, refused, rest
from conftest import MIB

KEPT = """
[[topic]]
match = "kept/**"
retain = true
persistent = true
"""
FAULT = Path(__file__).resolve().parent.parent / "disk" / "fault.c"


def until(attempt):
    deadline = time.monotonic() + WAIT
    while not attempt():
        assert time.monotonic() < deadline, "nothing has changed"
        time.sleep(0.02)


def again(server):
    """Another life, after an end without a warning."""
    server.kill()
    server.start()


def kept(server, destination, mib, **headers):
    client = Raw(server.port)
    client.send(destination, mib, persistent="true", receipt="r", **headers)
    assert client.frame()[:2] == ("RECEIPT", {"receipt-id": "r"})
    client.close()


def take(server, queue):
    """The next message of a queue, and a way to settle it."""
    client = Raw(server.port)
    client.subscribe(f"/queue/{queue}", ack="client-individual")
    _, headers, length, found = client.frame()

    def settle(command="ACK"):
        client.command(command, id=headers["ack"], receipt="done")
        # The next messages may have been on their way.
        while (frame := client.frame())[0] == "MESSAGE":
            pass
        assert frame[:2] == ("RECEIPT", {"receipt-id": "done"})
        client.close()

    return headers, (length, found), settle


def test_a_confirmed_message_survives_a_kill_and_was_never_in_memory(serve):
    server = serve(store=True)
    kept(server, "/queue/films", 1)
    before = server.anonymous()
    kept(server, "/queue/films", 96, genre="documentary")
    assert server.anonymous() - before < 8 * MIB
    assert [file.stat().st_mode & 0o777 for file in server.bodies()] == [0o600] * 2
    again(server)
    assert server.metric("tiderace_store_body_files") == 2
    # What lies there counts, whoever has sent it.
    assert server.metric("tiderace_large_message_bytes") >= 97 * MIB
    _, found, settle = take(server, "films")
    assert found == (MIB, digest(1))
    settle()
    before = server.anonymous()
    headers, found, settle = take(server, "films")
    assert (headers["genre"], found) == ("documentary", (96 * MIB, digest(96)))
    assert server.anonymous() - before < 8 * MIB
    # It was not settled, so another life gives it again.
    again(server)
    _, found, settle = take(server, "films")
    assert found == (96 * MIB, digest(96))
    settle()
    until(lambda: not server.bodies())
    server.until("tiderace_large_message_bytes", 0)
    again(server)
    client = Raw(server.port)
    client.subscribe("/queue/films")
    client.command("SEND", destination="/queue/films")
    assert client.frame()[2] == 0, "nothing was left before it"


def test_a_kill_in_the_middle_of_an_upload_leaves_nothing(serve):
    server = serve(store=True)
    client = Raw(server.port)
    client.begin("/queue/never", 64 * MIB, persistent="true", receipt="r")
    for _ in range(40):
        client.socket.sendall(BLOCK)
    server.until("tiderace_large_messages_arriving", 1)
    again(server)
    assert not server.bodies() and not list(server.files.iterdir())
    consumer = Raw(server.port)
    consumer.subscribe("/queue/never")
    consumer.command("SEND", destination="/queue/never")
    assert consumer.frame()[2] == 0


def test_kills_at_any_time_lose_nothing_that_was_confirmed(serve):
    server = serve(store=True)
    confirmed = set()
    for life in range(6):
        client = Raw(server.port)
        for number in range(4):
            client.send("/queue/all", 8, persistent="true", receipt=f"{life}-{number}", title=f"{life}-{number}")
        while len(confirmed) < life + 1:
            confirmed.add(client.frame()[1]["receipt-id"])
        again(server)
    left = {file.name for file in server.bodies()}
    seen = []
    consumer = Raw(server.port)
    consumer.subscribe("/queue/all", ack="client-individual")
    consumer.command("SEND", destination="/queue/all", title="end")
    while True:
        _, headers, length, found = consumer.frame()
        consumer.command("ACK", id=headers["ack"])
        if headers["title"] == "end":
            break
        assert (length, found) == (8 * MIB, digest(8))
        seen.append(headers["title"])
    assert confirmed <= set(seen) and len(seen) == len(set(seen)) == len(left), (confirmed, seen, left)
    until(lambda: not server.bodies())


def test_dead_letters_and_moves_keep_the_file(serve):
    server = serve(store=True)
    kept(server, "/queue/poison", 12)
    [file] = server.bodies()
    # It dies as it was read back, and not as it came.
    again(server)
    client = Raw(server.port)
    client.subscribe("/queue/poison", ack="client-individual")
    for _ in range(3):
        _, headers, *_ = client.frame()
        client.command("NACK", id=headers["ack"], receipt="n")
        assert client.frame()[0] == "RECEIPT"
    client.close()
    again(server)
    assert server.bodies() == [file]
    headers, found, settle = take(server, "dlq.poison")
    assert (headers["dead-letter-queue"], found) == ("poison", (12 * MIB, digest(12)))
    settle()
    until(lambda: not server.bodies())


def test_a_persistent_topic_has_its_large_value_in_another_life(serve):
    server = serve(store=True, more=KEPT)
    for mib in (3, 20):
        kept(server, "/topic/kept/map", mib)
    until(lambda: len(server.bodies()) == 1)
    again(server)
    late = Raw(server.port)
    late.subscribe("/topic/kept/map")
    assert late.frame()[2:] == (20 * MIB, digest(20))
    status, _ = rest(server, "PUT", "/topics/kept/map", BLOCK * 5)
    assert status == 200 and late.frame()[3] == digest(5)
    again(server)
    status, body = rest(server, "GET", "/topics/kept/map", None)
    assert (status, body) == (200, BLOCK * 5)
    assert rest(server, "DELETE", "/topics/kept/map", None)[0] == 204
    until(lambda: not server.bodies())


def test_durable_subscriptions_share_one_file(serve):
    durable = "".join(
        f'\n[[subscription]]\nname = "audit-{number}"\ntopics = ["films/**"]\n' for number in range(3)
    )
    server = serve(store=True, more=durable)
    kept(server, "/topic/films/new", 16)
    [file] = server.bodies()
    again(server)
    assert server.bodies() == [file]
    for number in range(3):
        assert server.bodies() == [file]
        _, found, settle = take(server, f"dsub/audit-{number}")
        assert found == (16 * MIB, digest(16))
        settle()
    until(lambda: not server.bodies())


@pytest.fixture
def elsewhere():
    """A directory on another file system than that of the store."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder) / "files"


def test_files_on_another_file_system_are_copied(elsewhere, serve):
    server = serve(store=True, files=elsewhere)
    kept(server, "/queue/films", 20)
    again(server)
    _, found, settle = take(server, "films")
    assert found == (20 * MIB, digest(20))
    settle()
    until(lambda: not server.bodies())


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    library = tmp_path_factory.mktemp("fault") / "fault.so"
    command = ["cc", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, FAULT, "-ldl"]
    subprocess.run(command, check=True)
    return library


def test_a_full_disk_refuses_it_and_loses_nothing(elsewhere, serve, library):
    """The files lie on another file system, so the store has to have room for a copy."""
    server = serve(store=True, files=elsewhere)
    server.kill()
    control = server.folder / "control"
    server.environment = {
        "LD_PRELOAD": str(library),
        "DISK_DIRECTORY": str(server.store.resolve()),
        "DISK_CONTROL": str(control),
    }
    server.start()
    kept(server, "/queue/films", 10)
    used = sum(file.stat().st_size for file in server.store.iterdir())
    control.write_text(f"capacity {used + 5 * MIB}")
    client = Raw(server.port)
    client.send("/queue/films", 10, persistent="true", receipt="r")
    assert refused(client) == "large-messages-full"
    until(lambda: len(server.bodies()) == 1)
    control.unlink()
    until(lambda: rest(server, "POST", "/queues/films?persistent=true", BLOCK * 7)[0] == 200)
    again(server)
    sizes = []
    for _ in range(2):
        _, found, settle = take(server, "films")
        sizes.append(found)
        settle()
    assert sizes == [(10 * MIB, digest(10)), (7 * MIB, digest(7))]
    until(lambda: not server.bodies())


def test_quotas_count_what_is_kept_in_later_lives(serve):
    server = serve('disk_bytes_max = "24 MiB"', store=True)
    kept(server, "/queue/films", 16)
    again(server)
    status, why = rest(server, "POST", "/queues/other", BLOCK * 10)
    assert (status, b"large-messages-full" in why) == (503, True), why
    _, found, settle = take(server, "films")
    assert found == (16 * MIB, digest(16))
    settle()
    server.until("tiderace_large_message_bytes", 0)
    assert rest(server, "POST", "/queues/other", BLOCK * 10)[0] == 200
    client = Raw(server.port)
    client.subscribe("/queue/other")
    assert client.frame()[3] == digest(10)


def test_damage_is_told_and_never_delivered(serve):
    server = serve(store=True)
    for mib in (2, 3, 4):
        kept(server, "/queue/films", mib)
    server.stop()
    [first, second, third] = server.bodies()
    assert server.tool("check", server.store).returncode == 0
    info = json.loads(server.tool("info", server.store, "--json").stdout)
    assert info["bodies"]["files"] == 3
    assert 9 * MIB <= info["bodies"]["bytes"] <= sum(file.stat().st_size for file in server.bodies())
    with open(second, "r+b") as file:
        file.seek(MIB)
        file.write(b"damaged")
    told = server.tool("check", server.store)
    assert told.returncode != 0 and second.name in told.stdout and "films" in told.stdout, told
    exported = server.tool("export", server.store, "--to", server.folder / "exported")
    assert exported.returncode != 0 and second.name in exported.stderr
    # The server starts: what is whole is delivered, what is not is passed over, and stays.
    server.start()
    client = Raw(server.port)
    client.subscribe("/queue/films", ack="client")
    assert client.frame()[3] == digest(2)
    assert client.frame()[3] == digest(4)
    server.until("tiderace_store_damaged_records_total", 1)
    assert second.exists()
    server.kill()
    # One that is missing is noticed at once, and then everything is looked at: the first damage is named.
    third.unlink()
    listen = f"127.0.0.1:{server.port}"
    command = [os.environ["TIDERACE_BINARY"], "serve", "--config", server.config, "--listen", listen]
    refused_start = subprocess.run(command, capture_output=True, text=True, timeout=WAIT)
    assert refused_start.returncode != 0 and f"{second.name} is damaged" in refused_start.stderr
    text = server.config.read_text()
    server.config.write_text(text.replace("[store]\n", "[store]\naccept_damage = true\n"))
    server.start()
    _, found, _ = take(server, "films")
    assert found == (2 * MIB, digest(2))
    assert [file.name for file in server.bodies()] == [first.name]
    assert second.with_suffix(".body.damaged").exists()


def test_a_store_with_large_messages_goes_elsewhere_in_one_file(serve, tmp_path):
    server = serve(store=True, more=KEPT)
    for mib in (3, 20):
        kept(server, "/queue/films", mib, number=str(mib))
    kept(server, "/topic/kept/map", 6)
    server.stop()
    exported, store = tmp_path / "exported", tmp_path / "store"
    told = server.tool("export", server.store, "--to", exported)
    assert told.returncode == 0, told
    assert exported.stat().st_size >= 29 * MIB
    damaged = bytearray(exported.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    assert server.tool("import", tmp_path / "damaged", store).returncode != 0
    assert not store.exists() and not store.with_suffix(".import").exists()
    told = server.tool("import", exported, store)
    assert told.returncode == 0, told
    assert server.tool("check", store).returncode == 0
    assert server.tool("compact", store).returncode == 0
    server.config.write_text(server.config.read_text().replace(str(server.store), str(store)))
    server.store = store
    server.start()
    assert len(server.bodies()) == 3
    for mib in (3, 20):
        headers, found, settle = take(server, "films")
        assert (headers["number"], found) == (str(mib), (mib * MIB, digest(mib)))
        settle()
    status, body = rest(server, "GET", "/topics/kept/map", None)
    assert (status, body) == (200, BLOCK * 6)
    until(lambda: len(server.bodies()) == 1)
