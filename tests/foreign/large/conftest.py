"""Servers of this suite's own, with a directory for large messages."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "raw")]
from ports import await_server, free_ports  # noqa: E402

BINARY = os.environ["TIDERACE_BINARY"]
MIB = 2**20

CONFIG = """
[server]
node = "large"
shards = 2
shutdown_grace = "1s"

[limits]
message_bytes_max = "4 MiB"

[stomp]
heart_beat_receive = "500ms"
heart_beat_grace = 8

[queues]
redeliveries_max = 2
redelivery_delay = "0s"

[events]
batch_bytes_max = "1 MiB"

[log]
format = "text"
level = "warn"
"""


class Server:
    """A server, which tells what it has in memory and in files."""

    def __init__(self, large="", more="", store=False, files=None):
        [self.port] = free_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="tiderace-large-"))
        self.files = files or self.folder / "files"
        self.store = self.folder / "store"
        self.environment = {}
        self.config = self.folder / "tiderace.toml"
        text = CONFIG + f'\n[large_messages]\ndirectory = "{self.files}"\n{large}\n{more}\n'
        if store:
            text += f'\n[store]\ndirectory = "{self.store}"\n'
        self.config.write_text(text)
        self.start()

    def start(self):
        listen = f"127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [BINARY, "serve", "--config", self.config, "--listen", listen],
            stdin=subprocess.DEVNULL, env=os.environ | self.environment,
        )
        os.environ["TIDERACE_STOMP"] = listen
        os.environ["TIDERACE_WS"] = f"ws://{listen}/stomp"
        await_server(self.port)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def bodies(self):
        """The files beside the log of the store."""
        return sorted(self.store.glob("*.body"))

    def tool(self, *arguments):
        """What `tiderace store` says."""
        command = [BINARY, "store", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def anonymous(self):
        """Memory that is no file's, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024

    def metric(self, name):
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    def until(self, name, value):
        """Waits until a metric has that value."""
        deadline = time.monotonic() + 20
        while (found := self.metric(name)) != value:
            assert time.monotonic() < deadline, (name, found)
            time.sleep(0.02)


@pytest.fixture
def serve():
    servers = []

    def make(*arguments, **named):
        servers.append(Server(*arguments, **named))
        return servers[-1]

    yield make
    for one in servers:
        try:
            if one.process.poll() is None:
                assert one.stop() == 0
            assert not list(one.files.iterdir()), "a file has a name"
        finally:
            one.process.kill()
            subprocess.run(["rm", "-rf", one.folder], check=True)
