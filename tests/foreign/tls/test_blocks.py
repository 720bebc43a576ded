"""An address that an operator keeps out: connections over TLS and of HTTP/2, those that are there and new ones."""

import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from conftest import WAIT, make_server

OPERATOR = """
[[token]]
name = "oli"
secret = "file:{folder}/token"
[[rule]]
allow = ["monitor", "operate"]
principals = ["user:oli"]
paths = ["$sys/**"]
"""


@pytest.fixture
def operated(tmp_path):
    (tmp_path / "token").write_text("the operator's token")
    one = make_server(tmp_path, OPERATOR.format(folder=tmp_path))
    yield one
    one.stop()


def manage(server, method, path):
    request = urllib.request.Request(f"http://127.0.0.1:{server.either}/manage{path}", method=method)
    request.add_header("Authorization", "Bearer the operator's token")
    with urllib.request.urlopen(request, timeout=WAIT) as answer:
        return json.load(answer)


def test_a_blocked_address_is_kept_out_over_tls_and_by_http2(operated):
    assert shutil.which("node"), "node is missing"
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": str(operated.authority.file)}
    script = Path(__file__).with_name("blocked.js")

    def client(address):
        return subprocess.Popen(
            ["node", script, str(operated.either), address],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def again(one):
        one.stdin.write("\n")
        one.stdin.flush()
        return json.loads(one.stdout.readline())

    with client("127.0.0.2") as blocked, client("127.0.0.3") as other:
        served = {"https": 200, "h2": 200, "h2c": 200}
        for one in (blocked, other):
            assert json.loads(one.stdout.readline()) == served
        manage(operated, "PUT", "/blocks/addresses/127.0.0.2")
        kept_out = again(blocked)
        assert kept_out["held"] == {"https": 403, "h2": 403, "h2c": 403}
        assert kept_out["fresh"] == {"https": "closed", "h2": "closed", "h2c": "closed"}
        assert again(other) == {"held": served, "fresh": served}
        assert manage(operated, "DELETE", "/blocks/addresses/127.0.0.2") == {"blocks": 1}
        assert again(blocked)["fresh"] == served
        for one in (blocked, other):
            one.stdin.close()
            assert one.wait(WAIT) == 0
