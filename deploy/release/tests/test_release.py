"""A release is made of all its files, the same ones from the same binary, and not of a version that nothing is said of."""

import gzip
import hashlib
import json
import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

RELEASE = Path(__file__).resolve().parent.parent
ROOT = RELEASE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
#: The binary that stands for those of a release; ./test has built it.
BINARY = Path(os.environ.get("TIDERACE_BINARY", TARGET / "release" / "tiderace"))
#: deploy/run-tests has built it.
HELM = Path(os.environ.get("HELM", TARGET / "tools" / "bin" / "helm"))
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
NOTES = "### Added\n- What is new.\n\n### Fixed\n- What was wrong.\n"


def version():
    return subprocess.run([str(ROOT / ".ci" / "version")], capture_output=True, text=True, check=True).stdout.strip()


def changelog(folder):
    """A changelog with this version between what is to come and what was."""
    path = folder / "CHANGELOG.md"
    others = "## [{}]\n### Added\n- Something else.\n\n"
    section = f"## [{version()}] - 2026-11-29\n\n{NOTES}\n"
    path.write_text("# Changelog\n\n" + others.format("Unreleased") + section + others.format("0.0.1"), encoding="utf-8")
    return path


def build(which, folder, work, *more):
    sbom = work / "sbom.json"
    sbom.write_text('{"bomFormat": "CycloneDX"}', encoding="utf-8")
    given = ["--binary", str(BINARY), "--sbom", str(sbom), "--changelog", str(changelog(work)), *more]
    return subprocess.run([str(RELEASE / "build"), which, str(folder), *given], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", name="release")
def made(tmp_path_factory):
    assert BINARY.exists(), f"{BINARY} is missing; build it, or name another in TIDERACE_BINARY"
    work = tmp_path_factory.mktemp("release")
    done = build(version(), work / "files", work)
    assert done.returncode == 0, done.stdout + done.stderr
    return work / "files"


def sums(folder):
    """Names and digests, as SHA256SUMS has them."""
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def test_all_files_are_there_and_their_sums_fit(release):
    now, machine = version(), os.uname().machine
    debian = {"x86_64": "amd64", "aarch64": "arm64"}[machine]
    files = {
        f"tiderace-{now}-{machine}-unknown-linux-gnu.tar.gz", f"tiderace_{now}_{debian}.deb", f"tiderace-{now}-1.{machine}.rpm",
        f"tiderace-{now}-image.tar", f"tiderace-{now}.tgz", f"tiderace-{now}.cdx.json",
    }
    assert {path.name for path in release.iterdir()} == files | {"SHA256SUMS", "NOTES.md"}
    assert sums(release) == {name: hashlib.sha256((release / name).read_bytes()).hexdigest() for name in files}


def test_the_same_binary_makes_the_same_bytes(release, tmp_path):
    # Built from another folder and at another time of day.
    done = build(version(), tmp_path / "again", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sums(tmp_path / "again") == sums(release)


def test_the_text_of_a_release_is_that_of_the_changelog(release):
    text = (release / "NOTES.md").read_text(encoding="utf-8")
    assert text.startswith(f"{NOTES}\nBuilt by: rustc version 1.")
    assert re.search(r"\nBuilt by: rustc version [^;]+; GCC: .+\.\n$", text)


def test_a_version_that_nothing_is_said_of_is_refused(tmp_path):
    own = changelog(tmp_path)
    for text in ("0.0.2", "0.0", f"{version()}.1"):
        done = subprocess.run([str(RELEASE / "notes"), text, str(own)], capture_output=True, text=True, check=False)
        assert done.returncode != 0 and f"says nothing of {text}" in done.stderr
    own.write_text(f"## [{version()}]\n\n## [0.0.1]\n- Something.\n", encoding="utf-8")
    assert subprocess.run([str(RELEASE / "notes"), version(), str(own)], check=False, capture_output=True).returncode != 0


def test_another_version_than_that_of_the_source_is_refused(tmp_path):
    done = build("0.0.1", tmp_path / "files", tmp_path)
    assert done.returncode != 0 and "0.0.1" in done.stderr
    assert not (tmp_path / "files").exists()


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    done = build(version(), tmp_path, tmp_path)
    assert done.returncode != 0 and "is not empty" in done.stderr


def test_the_archive_has_a_program_that_runs(release, tmp_path):
    (path,) = release.glob("*.tar.gz")
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert {(entry.uid, entry.gid) for entry in members} == {(0, 0)}
        tar.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    assert root.name == path.name.removesuffix(".tar.gz")
    said = subprocess.run([str(root / "tiderace"), "--version"], capture_output=True, text=True, check=True).stdout
    assert said.split()[1] == version()
    assert {"LICENSE", "CHANGELOG.md", "tiderace.toml"} <= {entry.name for entry in root.iterdir()}
    assert (root / "man" / "tiderace-serve.1").exists() and len(list((root / "completions").iterdir())) == 3


def test_helm_takes_the_package_of_the_chart(release):
    (path,) = release.glob("*.tgz")
    subprocess.run([str(HELM), "lint", "--strict", str(path)], check=True, capture_output=True)
    values = ROOT / "deploy" / "helm" / "tests" / "values" / "monitored.yaml"
    folder = ROOT / "deploy" / "helm" / "tiderace"
    of_each = [
        subprocess.run([str(HELM), "template", "a", str(chart), "--values", str(values)], capture_output=True, text=True, check=True)
        for chart in (path, folder)
    ]
    assert of_each[0].stdout == of_each[1].stdout
    # Where the folder has links, the package has files.
    assert all(entry.isfile() for entry in tarfile.open(fileobj=gzip.open(path)).getmembers())
    shown = subprocess.run([str(HELM), "show", "chart", str(path)], capture_output=True, text=True, check=True).stdout
    assert yaml.safe_load(shown)["version"] == version()


def test_the_image_and_the_packages_are_of_that_version(release):
    (image,) = release.glob("*-image.tar")
    with tarfile.open(image) as tar:
        (entry,) = json.load(tar.extractfile("manifest.json"))
    assert entry["RepoTags"] == [f"localhost/tiderace:{version()}"]
    (deb,) = release.glob("*.deb")
    said = subprocess.run(["dpkg-deb", "--field", str(deb), "Version"], capture_output=True, text=True, check=True).stdout
    assert said.strip() == version()


def test_the_bill_of_materials_names_the_crates(tmp_path):
    bills = [tmp_path / "one.json", tmp_path / "another.json"]
    for path in bills:
        subprocess.run([str(RELEASE / "sbom"), str(path)], check=True, capture_output=True)
    assert bills[0].read_bytes() == bills[1].read_bytes()
    assert str(ROOT) not in bills[0].read_text(encoding="utf-8")
    bill = json.loads(bills[0].read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["name"] == "tiderace"
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    locked = {(package["name"], package["version"]) for package in lock}
    found = {(component["name"], component["version"]) for component in bill["components"]}
    assert found <= locked and {"rustls", "tiderace-broker"} <= {name for name, _ in found}
    # Not what only tests and tools have.
    assert "proptest" not in {name for name, _ in found}
    assert not list(ROOT.glob("shell/*/*.cdx.json"))


def jobs():
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


def test_the_workflow_publishes_what_the_script_has_made():
    files = jobs()["files"]
    runs = [step.get("run", "") for step in files["steps"]]
    assert any(re.search(r"deploy/release/build \S+ release", run) for run in runs)
    uses = {step["uses"].split("@")[0]: step["with"] for step in files["steps"] if "uses" in step and "with" in step}
    attested = [step["with"] for step in jobs()["release"]["steps"] if "attest" in step.get("uses", "")]
    assert [given["subject-checksums"] for given in attested] == ["release/SHA256SUMS"]
    assert uses["actions/upload-artifact"]["path"] == "release"
    (publish,) = [step["run"] for step in jobs()["release"]["steps"] if "run" in step]
    assert "gh release create" in publish and "--draft" in publish and "NOTES.md" in publish


def test_no_job_may_do_more_than_it_needs():
    rights = {name: job.get("permissions", {}) for name, job in jobs().items()}
    assert yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    assert [name for name, given in rights.items() if given.get("contents") == "write"] == ["release"]
    assert [name for name, given in rights.items() if "attestations" in given] == ["release"]
    assert "files" in jobs()["release"]["needs"] and "test" in jobs()["files"]["needs"]
    # What cannot be taken back comes last.
    assert jobs()["packages"]["needs"] == ["test", "files", "release"]
