"""The commands of protocols/events/README.md, as people type them."""

import json
import pathlib
import re
import shlex

import pytest

from conftest import BASE, LOGIN, PASSCODE, TOKEN, call, curl, curl_head, unique

README = pathlib.Path(__file__).parents[3] / "protocols" / "events" / "README.md"
COMMANDS = [line for line in README.read_text().splitlines() if line.startswith("curl ")]


def test_the_page_has_commands():
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("version", [[], ["--http2-prior-knowledge"]], ids=["1.1", "2"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_works(command, version):
    # The page's server knows nobody; this one wants to know who asks, and its streams never end.
    words = shlex.split(command.replace("http://127.0.0.1:7800", BASE).replace("my-token", TOKEN))[1:]
    words = [word.replace("ann:password", f"{LOGIN}:{PASSCODE}") for word in words]
    if "-u" not in words and not any("Authorization" in word for word in words):
        words += ["-H", f"Authorization: Bearer {TOKEN}"]
    if any("/topics/~/inbox" in word for word in words):
        call("PUT", "/topics/~/inbox", b"x")
        curl("-u", f"{LOGIN}:{PASSCODE}", "-X", "PUT", f"{BASE}/topics/~/inbox", "-d", "x")
    if words[0].endswith("EUR-USD"):
        call("PUT", "/topics/fx/EUR-USD", b"1.0712")
    status, head, body = (curl_head if "-N" in words else curl)(*version, *words)
    assert status in (200, 204), (head, body)
    assert head.startswith("HTTP/2 " if version else "HTTP/1.1 ")


def test_expect_100_continue(topic):
    data = b"x" * 1_500_000
    status, _, _ = curl(
        *["-H", f"Authorization: Bearer {TOKEN}", "-H", "Expect: 100-continue", "-T", "-"],
        *["-H", "Content-Type: application/octet-stream", f"{BASE}/topics/{topic}"],
        stdin=data,
    )
    assert status == 200
    assert call("GET", f"/topics/{topic}").content == data


def test_a_form_type_is_no_content_type(topic):
    curl("-H", f"Authorization: Bearer {TOKEN}", "-X", "PUT", f"{BASE}/topics/{topic}", "-d", "hi")
    assert call("GET", f"/topics/{topic}").headers["Content-Type"] == "text/plain; charset=utf-8"


def test_a_batch_by_curl():
    name = unique("curl")
    items = json.dumps([{"topic": f"{name}/{n}", "value": n, "retain": True} for n in range(100)])
    status, _, body = curl("-H", f"Authorization: Bearer {TOKEN}", f"{BASE}/batch", "-d", items)
    assert (status, json.loads(body)["accepted"]) == (200, 100)
    assert len(re.findall(r'"topic"', call("GET", f"/topics?pattern={name}/*").text)) == 100
