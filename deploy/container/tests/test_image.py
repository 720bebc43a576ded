"""The container image is small, well formed, and runs on a root that nobody can write to."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

CONTAINER = Path(__file__).resolve().parent.parent
ROOT = CONTAINER.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
#: The binary that goes into the image; ./test has built it.
BINARY = Path(os.environ.get("TIDERACE_BINARY", TARGET / "release" / "tiderace"))
#: Compressed, as it is pulled.
BYTES_MAX = 16 << 20
USER = 65532
AS_ROOT = [] if os.geteuid() == 0 else ["sudo", "-n"]
#: Has the image's root, read-only, and nothing else of this machine but its processes and its network.
ISOLATED = """
set -e
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -o remount,bind,ro "$1"
exec setpriv --no-new-privs --bounding-set=-all,+setgid,+setuid,+sys_chroot chroot --userspec=65532:65532 --groups= "$@"
"""


@pytest.fixture(scope="module", name="image")
def made(tmp_path_factory):
    assert BINARY.exists(), f"{BINARY} is missing; build it, or name another in TIDERACE_BINARY"
    path = tmp_path_factory.mktemp("image") / "tiderace.tar"
    subprocess.run([str(CONTAINER / "build"), str(BINARY), str(path)], check=True)
    return path


class Archive:
    """The blobs of an image, each compared with its digest."""

    def __init__(self, path):
        self.tar = tarfile.open(path)

    def read(self, name):
        return self.tar.extractfile(name).read()

    def blob(self, descriptor):
        kind, digest = descriptor["digest"].split(":")
        content = self.read(f"blobs/{kind}/{digest}")
        assert len(content) == descriptor["size"]
        assert hashlib.new(kind, content).hexdigest() == digest
        return content


def opened(path):
    """Manifest, configuration and layers, as an engine finds them."""
    archive = Archive(path)
    assert json.loads(archive.read("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(archive.read("index.json"))["manifests"]
    manifest = json.loads(archive.blob(entry))
    return manifest, json.loads(archive.blob(manifest["config"])), [archive.blob(layer) for layer in manifest["layers"]]


def test_it_is_small_and_runs_as_nobody_in_particular(image):
    _, config, layers = opened(image)
    assert sum(map(len, layers)) <= BYTES_MAX
    assert config["config"]["User"] == f"{USER}:{USER}"
    assert config["config"]["Entrypoint"] == ["/usr/bin/tiderace"]
    assert config["config"]["StopSignal"] == "SIGTERM"


def test_tools_of_others_read_it(image):
    for form in ["oci-archive", "docker-archive"]:
        done = subprocess.run(["skopeo", "inspect", f"{form}:{image}"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["Labels"]["org.opencontainers.image.title"] == "tiderace"


def test_the_same_binary_makes_the_same_image(image, tmp_path):
    again = tmp_path / "again.tar"
    subprocess.run([str(CONTAINER / "build"), str(BINARY), str(again)], check=True)
    assert again.read_bytes() == image.read_bytes()


def test_it_has_no_more_than_it_needs(image, tmp_path):
    root = unpacked(image, tmp_path)
    files = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    programs = [path for path in files if path.parts[0] in ("bin", "sbin") or path.parts[:2] in (("usr", "bin"), ("usr", "sbin"))]
    assert [str(path) for path in programs] == ["usr/bin/tiderace"]
    others = [path for path in files if not re.search(r"\.so(\.|$)", path.name)]
    assert sorted(map(str, others)) == [
        "etc/group", "etc/nsswitch.conf", "etc/passwd", "etc/ssl/certs/ca-certificates.crt",
        "usr/bin/tiderace", "usr/share/licenses/tiderace/LICENSE",
    ]
    assert b"BEGIN CERTIFICATE" in (root / "etc/ssl/certs/ca-certificates.crt").read_bytes()


def unpacked(image, folder):
    _, config, layers = opened(image)
    root = folder / "root"
    root.mkdir()
    root.chmod(0o755)
    for layer, whole in zip(layers, config["rootfs"]["diff_ids"], strict=True):
        plain = subprocess.run(["gzip", "-dc"], input=layer, capture_output=True, check=True).stdout
        assert f"sha256:{hashlib.sha256(plain).hexdigest()}" == whole
        subprocess.run([*AS_ROOT, "tar", "-C", str(root), "-xpf", "-", "--numeric-owner"], input=plain, check=True)
    return root


def inside(root, *arguments, **options):
    """A command of the image, on its root."""
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ISOLATED, "sh", str(root)]
    return subprocess.Popen(
        [*AS_ROOT, *command, "/usr/bin/tiderace", *arguments], text=True, start_new_session=True, **options
    )


def end(process):
    """Ends a command of the image. Who gets another user's rights no longer ends with its parent."""
    subprocess.run([*AS_ROOT, "kill", "-KILL", "--", f"-{process.pid}"], check=True)
    process.wait(60)


def test_it_serves_from_a_root_that_it_cannot_write_to(image, tmp_path):
    root = unpacked(image, tmp_path)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    server = inside(root, "serve", "--listen", "127.0.0.1:0", "--log-format", "json", **pipes)
    try:
        events = map(json.loads, server.stderr)
        address = next(event["address"] for event in events if event.get("event") == "listening")
        assert next(event for event in events if event.get("event") == "server-started")
        publish = inside(root, "pub", "-s", address, "-r", "a/b", "kept", **pipes)
        assert publish.wait(60) == 0, publish.stderr.read()
        subscribe = inside(root, "sub", "-s", address, "a/b", "-C", "1", **pipes)
        assert subscribe.communicate(timeout=60)[0].split()[-1] == "kept"
    finally:
        end(server)
    refused = inside(root, "man", "/var/lib/tiderace", **pipes)
    assert refused.wait(60) != 0
    assert "Read-only file system" in refused.stderr.read()
