"""The packages for Debian and for RPM have what their table says, and live in a Debian that is booted for them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parent.parent
ROOT = PACKAGES.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
#: The binary that goes into the packages; ./test has built it.
BINARY = Path(os.environ.get("TIDERACE_BINARY", TARGET / "release" / "tiderace"))
#: Paths that one kind of package has elsewhere than the table says.
ELSEWHERE = {
    "deb": {"/usr/lib/systemd/": "/lib/systemd/", "/doc/tiderace/CHANGELOG.md": "/doc/tiderace/changelog.gz"},
    "rpm": {"/zsh/vendor-completions/": "/zsh/site-functions/"},
}
#: What the table does not have, as each kind has its own.
LICENCES = {"/usr/share/doc/tiderace/copyright", "/usr/share/licenses/tiderace/LICENSE"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module", name="packages")
def made(tmp_path_factory):
    """The packages: for Debian of an older version and of this one, and for RPM."""
    assert BINARY.exists(), f"{BINARY} is missing; build it, or name another in TIDERACE_BINARY"
    folder = tmp_path_factory.mktemp("packages")
    builds = [run(str(PACKAGES / "build"), str(BINARY), str(folder), *which) for which in (["0.0.1", "deb"], [])]
    return [Path(path) for build in builds for path in build.split()]


def table(kind):
    """Modes of paths, as the table says for one kind of package; pages stand there as their folder."""
    modes = {}
    for line in (PACKAGES / "contents").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        path, mode, _, _ = line.split()
        for here, there in ELSEWHERE[kind].items():
            path = path.replace(here, there)
        modes[path] = int(mode, 8)
    return modes


def contents(listing):
    """The same of a package, from the paths and modes of its files."""
    pages = "/usr/share/man/man1"
    return {pages if path.startswith(pages) else path: mode for path, mode in listing if path not in LICENCES}


def bits(text):
    """The mode that `-rw-r-----` is."""
    return sum(1 << (8 - place) for place, letter in enumerate(text[1:]) if letter != "-")


def test_the_package_for_debian_is_what_the_table_says(packages):
    (_, deb, _) = packages
    rows = [line.split() for line in run("dpkg-deb", "--contents", str(deb)).splitlines()]
    files = [(row[5].removeprefix("."), bits(row[0])) for row in rows if row[0].startswith("-")]
    assert contents(files) == table("deb")
    assert all(row[1] == "root/root" for row in rows)
    assert run("dpkg-deb", "--info", str(deb), "conffiles") == "/etc/tiderace/tiderace.toml\n"


def test_the_package_for_rpm_is_what_the_table_says(packages):
    (_, _, rpm) = packages
    # path size mtime digest mode owner group isconfig isdoc rdev symlink
    rows = [line.split() for line in run("rpm", "-qp", "--dump", str(rpm)).splitlines()]
    files = [(row[0], int(row[4], 8) & 0o7777) for row in rows if row[4].startswith("0100")]
    assert contents(files) == table("rpm")
    config = "/etc/tiderace/tiderace.toml"
    assert [row[0] for row in rows if row[7] == "1"] == [config]
    assert [row[5:7] for row in rows if row[0] == config] == [["root", "tiderace"]]
    # A configuration, which upgrades do not replace.
    assert "cn" in run("rpm", "-qp", "--qf", "[%{FILEFLAGS:fflags}\n]", str(rpm)).split()


def test_an_upgrade_by_rpm_touches_no_server(packages):
    (_, _, rpm) = packages
    scripts = run("rpm", "-qp", "--scripts", str(rpm))
    assert "systemctl" in scripts
    assert not re.search(r"restart|systemctl start", scripts), scripts
    stops = [line for line in scripts.splitlines() if "systemctl stop" in line or "disable" in line]
    (_, removal) = scripts.split("[ $1 -eq 0 ]")
    assert len(stops) == 2 and all(line in removal for line in stops), scripts


def test_lintian_finds_no_errors(packages):
    (_, deb, _) = packages
    run("lintian", "--allow-root", "--fail-on", "error", str(deb))


def test_the_configuration_that_comes_along_can_be_used():
    run(str(BINARY), "config", "check", "--config", str(PACKAGES / "tiderace.toml"))


def test_they_live_in_a_debian_that_is_booted_for_them(packages):
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    (old, new, _) = packages
    said = run(*as_root, str(PACKAGES / "tests" / "boot"), str(old), str(new), str(TARGET / "tools"))
    assert [line.split()[1].rstrip(":,") for line in said.splitlines()] == [
        "installed", "looked", "publish", "upgraded", "reloaded", "restarted", "a", "stopped", "purged",
    ]
