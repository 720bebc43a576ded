"""Real servers, which can be killed and started again, and a line to one that can be cut."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("TIDERACE_BIN", str(ROOT / "target/release/tiderace"))
#: Bounds failure only: seconds.
WAIT = 30.0
# Servers come back at the address that they had. Of 127.0.0.1 connections of other programs take free ports
# meanwhile, as their own ends; of this one they do not. Only Linux has all of 127.0.0.0/8 from the beginning.
HOST = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
LISTENING = re.compile(rb'"event":"listening".*"address":"127\.0\.0\.[12]:(\d+)"')


class Server:
    """One server after the other at the same address, with the same store."""

    def __init__(self, configuration: str = "", store: bool = True, mode: tuple[str, ...] = ()) -> None:
        self.mode = mode
        self.folder = tempfile.TemporaryDirectory(prefix="tiderace-python-")
        self.configuration = Path(self.folder.name) / "tiderace.toml"
        text = '[native]\nreconnect_jitter = "20ms"\n'
        if store:
            text += f'[store]\ndirectory = "{self.folder.name}/store"\n'
        self.configuration.write_text(text + configuration)
        self.log = Path(self.folder.name) / "server.log"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """In development mode, if no other is said; the first time at a port that the system chooses."""
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            arguments = [BINARY, *self.mode, "--config", str(self.configuration), "--listen", f"{HOST}:{self.port}"]
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + WAIT
        while not (found := LISTENING.search(self.log.read_bytes(), begin)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not start: {self.log.read_text()}")
            time.sleep(0.01)
        self.port = int(found[1])

    def kill(self) -> None:
        """As a loss of power to the process."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """As an operator does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(WAIT)
        assert status == 0, f"the server ended with status {status}: {self.log.read_text()}"

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self.folder.cleanup()


class Line:
    """A way to a server that can be cut or fall silent, as networks are."""

    def __init__(self, url: str) -> None:
        self._target = int(url.rsplit(":", 1)[1])
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._server: asyncio.Server | None = None
        self._silent = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.down = False
        self.url = ""

    async def __aenter__(self) -> Line:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, down: bool = False) -> None:
        """Drops all connections; while `down` no new one is taken."""
        self.down = down
        for near, far in self._pairs:
            near.transport.abort()
            far.transport.abort()
        self._pairs.clear()

    def silence(self) -> None:
        """The connections there are now carry nothing any more, without ending."""
        self._silent = True

    async def _accepted(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        if self.down:
            near.transport.abort()
            return
        self._silent = False
        source, far = await asyncio.open_connection(HOST, self._target)
        pair = (near, far)
        self._pairs.add(pair)
        for data, target in ((reader, far), (source, near)):
            task = asyncio.ensure_future(self._carry(data, target, pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        try:
            while data := await source.read(65536):
                if self._silent:
                    await asyncio.Event().wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            self._pairs.discard(pair)
            for writer in pair:
                writer.transport.abort()
