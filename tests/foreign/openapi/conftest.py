"""A server of this suite's own with somebody for each role, whose rules are those of docs/management.md."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]
from ports import await_server, free_ports  # noqa: E402

BINARY = os.environ["TIDERACE_BINARY"]
PAGE = HERE.parent.parent.parent / "docs" / "management.md"
ROLES = ["viewer", "operator", "admin"]


def rules():
    """What the page says of roles."""
    [made] = re.findall(r"<!-- made: roles -->\n```toml\n(.*?)```", PAGE.read_text(), re.S)
    return made


@pytest.fixture(scope="session")
def server():
    """Its address."""
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="tiderace-openapi-") as folder:
        text = f'[server]\nlisten = ["127.0.0.1:{port}"]\nshards = 2\n[store]\ndirectory = "{folder}/store"\n'
        for name in ["nobody", *ROLES]:
            secret = Path(folder) / name
            secret.write_text(f"the token of {name}")
            text += f'[[token]]\nname = "{name}"\nsecret = "file:{secret}"\ngroups = ["{name}s"]\n'
        config = Path(folder) / "tiderace.toml"
        config.write_text(text + rules())
        with open(Path(folder) / "log", "wb") as log:
            process = subprocess.Popen([BINARY, "serve", "--config", config], stdin=subprocess.DEVNULL, stderr=log)
        try:
            await_server(port)
            yield f"http://127.0.0.1:{port}"
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0, (Path(folder) / "log").read_text()
        finally:
            process.kill()
