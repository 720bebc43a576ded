"""The units of systemd are well formed, hardened, and agree with the server's own defaults."""

import os
import re
import subprocess
from pathlib import Path

UNITS = Path(__file__).resolve().parent.parent
ROOT = UNITS.parent.parent
#: Exposure as `systemd-analyze security` counts it, in tenths: 15 of 100 is what it calls OK.
EXPOSURE_MAX = 15
#: What the server asks for behind its grace, for the last writes of its store (`CLOSING` in serve.rs).
CLOSING_S = 30


def unit(name):
    """A unit as sections of lists, as keys may come more than once."""
    sections = {}
    for line in (UNITS / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    return done.returncode, done.stdout + done.stderr


def default_of(option):
    """What docs/options.md says is the default of an option."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    (_, section) = page.split(f"### `{option}`\n")
    return re.search(r"^- Default: `([^`]*)`", section, re.M).group(1).strip('[]"')


def test_systemd_understands_every_line(tmp_path):
    program = tmp_path / "tiderace"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    for name in ["tiderace.service", "tiderace.socket"]:
        text = (UNITS / name).read_text(encoding="utf-8").replace("/usr/bin/tiderace", str(program))
        (tmp_path / name).write_text(text, encoding="utf-8")
    units = [str(tmp_path / name) for name in ["tiderace.service", "tiderace.socket"]]
    status, said = run("systemd-analyze", "verify", "--man=no", *units)
    # Of other units of this machine it may complain as well.
    assert status == 0, said
    assert not [line for line in said.splitlines() if "tiderace" in line], said


def test_the_service_is_hardened():
    service = str(UNITS / "tiderace.service")
    status, said = run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", service)
    assert status == 0, said


def test_stopping_has_the_time_that_the_server_takes():
    (stop,) = unit("tiderace.service")["Service"]["TimeoutStopSec"]
    grace = re.fullmatch(r"(\d+)s", default_of("server.shutdown_grace")).group(1)
    assert int(stop.removesuffix("s")) >= int(grace) + CLOSING_S
    serve = (ROOT / "shell" / "server" / "src" / "serve.rs").read_text(encoding="utf-8")
    assert f"const CLOSING: Duration = Duration::from_secs({CLOSING_S});" in serve


def test_the_socket_is_the_one_the_server_listens_on():
    assert unit("tiderace.socket")["Socket"]["ListenStream"] == [default_of("server.listen")]


def test_a_bad_configuration_fails_the_reload_before_the_server_hears_of_it():
    check, signal = unit("tiderace.service")["Service"]["ExecReload"]
    (start,) = unit("tiderace.service")["Service"]["ExecStart"]
    assert check == start.replace(" serve ", " config check ")
    assert "kill -HUP" in signal
