"""A server of this suite's own: a budget of 128 MiB under an address space of 1 GiB."""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "raw")]
from ports import await_server, free_ports  # noqa: E402

BINARY = os.environ["TIDERACE_BINARY"]
MIB = 2**20
BUDGET = 128 * MIB
"""`memory.messages_bytes_max` in tiderace.toml."""
ABOVE = 128 * MIB
"""What the server may take besides."""
ADDRESS_SPACE = 1024 * MIB


ANONYMOUS = """
[auth]
allow_anonymous = true

[[rule]]
allow = ["publish", "subscribe", "send", "receive", "call", "serve", "create", "browse", "monitor", "admin"]
principals = ["anonymous"]
"""
"""Clients without credentials may do everything."""


class Server:
    def __init__(self, more=""):
        [self.port] = free_ports(1)
        self.folder = tempfile.TemporaryDirectory()
        config = Path(self.folder.name) / "tiderace.toml"
        config.write_text((HERE / "tiderace.toml").read_text() + more)
        listen = f"127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [BINARY, "serve", "--config", config, "--listen", listen],
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE)),
        )
        os.environ["TIDERACE_STOMP"] = listen
        os.environ["TIDERACE_WS"] = f"ws://{listen}/stomp"
        os.environ["TIDERACE_LOGIN"] = "mal:tide-passcode"
        await_server(self.port)

    def peak(self):
        """The most memory that has ever been resident, in bytes, as the kernel counted it."""
        return self.status("VmHWM")

    def status(self, name):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


def served(more=""):
    one = Server(more)
    try:
        yield one
        assert one.process.poll() is None, "the server is gone"
        assert one.stop() == 0
    finally:
        one.process.kill()
        one.folder.cleanup()


@pytest.fixture
def server():
    """A new one for each attack, so that each is judged by itself. It must stop in good order."""
    yield from served()


@pytest.fixture
def open_server():
    """One that lets in clients without credentials, too."""
    yield from served(ANONYMOUS)
