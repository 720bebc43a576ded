"""The files of the stress test fit each other, the documentation and the tools they are for."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import hcl2
import promql_parser
import pytest
import yaml

STRESS = Path(__file__).resolve().parent.parent
ROOT = STRESS.parent.parent
SCRIPTS = ["build_image.sh", "test_start.sh", "test_stop.sh", "scripts/common.sh"]
SERVICES = ["rsocket-stress-test-server", "rsocket-stress-test-server-metrics"]


def text(value):
    """A string of HCL without its quotes."""
    return value.strip('"') if isinstance(value, str) else value


def parse(name):
    with open(STRESS / "scripts" / name, encoding="utf-8") as file:
        return hcl2.load(file)


def labelled(blocks):
    """Blocks with one label, as a dictionary."""
    return {text(label): body for block in blocks for label, body in block.items() if not label.startswith("__")}


def only(blocks):
    (block,) = labelled(blocks).items()
    return block


def metrics():
    """Names in docs/metrics.md, with their kind and the labels that they have."""
    known = {}
    for line in (ROOT / "docs/metrics.md").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| `([a-z_]+)` \| (\w+) \| \w* ?\| (.*?) \|", line):
            name, kind, labels = match.groups()
            kept = known.setdefault(name, (kind, set()))
            # Of `a="1"` the names; `a, b` are names.
            kept[1].update(re.findall(r"[a-z_]+(?=[=,`]|$)", re.sub(r'"[^"]*"', "", labels)))
    return known


def templates():
    return sorted(path.name for path in (STRESS / "scripts").glob("*.nomad"))


# What of Nomad's job specification is used here: attributes and blocks that each block may have.
SCHEMA = {
    "job": "datacenters type group",
    "group": "count network restart reschedule service task",
    "network": "port",
    "port": "",
    "restart": "attempts mode",
    "reschedule": "attempts unlimited",
    "service": "name port tags check",
    "check": "type port path interval timeout",
    "task": "driver config env template resources",
    "config": "image args network_mode ports ulimit",
    "ulimit": "nofile",
    "template": "data destination env change_mode",
    "resources": "cpu memory",
    "variable": "type default description validation",
    "validation": "condition error_message",
}
LABELLED = {"job", "group", "task", "port", "variable"}


def walk(kind, body, where):
    known = SCHEMA.get(kind)
    if known is None:
        return
    for key, value in body.items():
        if key.startswith("__"):
            continue
        assert key in known.split(), f"{where}: `{kind}` has no `{key}`"
        if key not in SCHEMA:
            continue
        for block in value if isinstance(value, list) else [value]:
            if not isinstance(block, dict):
                continue
            inner = labelled([block]).values() if key in LABELLED else [block]
            for one in inner:
                walk(key, one, f"{where} {key}")


@pytest.mark.parametrize("name", templates())
def test_a_template_has_known_blocks_alone(name):
    document = parse(name)
    assert set(document) - {"__comments__", "__inline_comments__"} == {"variable", "job"}
    for kind in ("variable", "job"):
        for body in labelled(document[kind]).values():
            walk(kind, body, name)


@pytest.mark.parametrize("name", templates())
def test_every_variable_is_declared_and_used(name):
    source = (STRESS / "scripts" / name).read_text(encoding="utf-8")
    used = set(re.findall(r"\bvar\.([a-z_]+)", source))
    assert used == set(labelled(parse(name)["variable"]))


def test_the_jobs_are_those_of_the_seed():
    job, body = only(parse("server.nomad")["job"])
    assert job == "rsocket-stress-test-server"
    group, servers = only(body["group"])
    assert (group, servers["count"]) == ("servers", 1)
    job, body = only(parse("client.nomad")["job"])
    assert job == "rsocket-stress-test-client"
    group, clients = only(body["group"])
    assert group == "clients"
    variables = labelled(parse("client.nomad")["variable"])
    assert variables["clients"]["default"] == 2


def test_consul_gets_both_services_with_checks_on_ports_there_are():
    _, body = only(parse("server.nomad")["job"])
    _, group = only(body["group"])
    ports = set(labelled(group["network"][0]["port"]))
    services = {text(service["name"]): service for service in group["service"]}
    assert list(services) == SERVICES
    _, task = only(group["task"])
    assert {text(port) for port in task["config"][0]["ports"]} == ports
    for service in services.values():
        assert text(service["port"]) in ports
        for check in service["check"]:
            assert text(check["port"]) in ports
    assert f'service \\"{SERVICES[0]}\\"' in (STRESS / "scripts/client.nomad").read_text(encoding="utf-8")


def test_every_option_exists():
    options = (ROOT / "docs/options.md").read_text(encoding="utf-8")
    named = set()
    for path in STRESS.rglob("*"):
        if path.is_file() and path.suffix in {".nomad", ".sh", ".md", ".yml"}:
            named.update(re.findall(r"TIDERACE_[A-Z]+__[A-Z_]+", path.read_text(encoding="utf-8")))
    assert named
    missing = {name for name in named if f"`{name}`" not in options}
    assert not missing, f"docs/options.md has no {sorted(missing)}"


# Prometheus.


def test_prometheus_finds_the_metrics_in_consul():
    config = yaml.safe_load((STRESS / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    (discovery,) = job["consul_sd_configs"]
    assert discovery["services"] == [SERVICES[1]]
    assert set(discovery) <= {"server", "services", "refresh_interval", "tags", "token", "datacenter"}
    for name in config["rule_files"]:
        assert (STRESS / "prometheus" / name).is_file()


def recorded():
    document = yaml.safe_load((STRESS / "prometheus/rules.yml").read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard():
    return json.loads((STRESS / "grafana/dashboard.json").read_text(encoding="utf-8"))


def expressions():
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for rule in recorded():
        yield rule.get("record") or rule["alert"], rule["expr"]


NAME = r"\b(?:tiderace|process)_[a-z_]+"


def test_every_metric_of_the_panels_and_rules_is_documented():
    known = metrics()
    for title, expression in expressions():
        bare = re.sub(r'"[^"]*"', '""', expression)
        names = re.findall(NAME, bare)
        assert names or bare.startswith("up{"), title
        for name in names:
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            kind, labels = known.get(name) or known.get(base) or pytest.fail(f"{title}: docs/metrics.md has no {name}")
            assert (name != base) == (kind == "histogram"), f"{title}: {name} is a {kind}"
            if kind != "gauge":
                assert "rate(" in bare or " - " in bare, f"{title}: {name} only rises"
        for group in re.findall(r"by \(([^)]*)\)", bare):
            for label in re.split(r", *", group):
                bases = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
                found = label in {"instance", "le"} or any(label in known[base][1] for base in bases if base in known)
                assert found, f"{title}: no metric there has the label {label}"


def test_the_panels_of_the_seed_are_there_and_do_not_overlap():
    panels = dashboard()["panels"]
    titles = [panel["title"] for panel in panels]
    for title in ["Streams", "CPU usage", "Memory", "Frames", "Connections", "Requests started", "Pauses"]:
        assert title in titles
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def test_grafana_is_pointed_at_prometheus():
    source = yaml.safe_load((STRESS / "grafana/provisioning/datasources/prometheus.yml").read_text(encoding="utf-8"))
    assert source["datasources"][0]["type"] == "prometheus"
    provider = yaml.safe_load((STRESS / "grafana/provisioning/dashboards/stress.yml").read_text(encoding="utf-8"))
    assert provider["providers"][0]["type"] == "file"
    variables = {variable["name"] for variable in dashboard()["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", json.dumps(dashboard()["panels"])))
    assert used <= variables, used


def rules():
    groups = yaml.safe_load((STRESS / "prometheus/rules.yml").read_text(encoding="utf-8"))["groups"]
    return [(rule.get("record") or rule["alert"], rule["expr"]) for group in groups for rule in group["rules"]]


def test_every_expression_is_promql():
    shown = [(title, expression.replace("$__rate_interval", "30s")) for title, expression in expressions()]
    assert rules() and shown
    for title, expression in shown + rules():
        try:
            promql_parser.parse(re.sub(r"\$\{?[a-z]+\}?", "any", expression))
        except ValueError as error:
            pytest.fail(f"{title}: {expression}: {error}")


# The image and the scripts.


def test_the_image_is_built_from_what_is_there_and_runs_without_rights():
    lines = (STRESS / "Dockerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    assert [line[0] for line in words][:1] == ["FROM"]
    users = [line[1] for line in words if line[0] == "USER"]
    assert users and not users[-1].startswith(("0", "root"))
    assert 'ENTRYPOINT ["/usr/local/bin/tiderace"]' in lines
    manifest = (ROOT / "shell/server/Cargo.toml").read_text(encoding="utf-8")
    assert 'name = "tiderace"' in manifest
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert "/target" in ignored and "rust-toolchain.toml" in " ".join(ignored)


def test_the_scripts_are_clean():
    shellcheck = Path(sys.executable).with_name("shellcheck")
    run = subprocess.run([shellcheck, "-x", "-P", "SCRIPTDIR", *SCRIPTS], cwd=STRESS, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    for name in SCRIPTS[:3]:
        assert os.access(STRESS / name, os.X_OK), name


@pytest.fixture
def tools(tmp_path):
    """nomad, curl and docker that only write down what they are told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, answer in {"nomad": "", "docker": "", "curl": '[{"Service":{"Service":"x"}}]'}.items():
        tool = folder / name
        tool.write_text(f"#!/bin/sh\nprintf '%s\\n' \"{name} $*\" >>'{tmp_path}/calls'\necho '{answer}'\n", encoding="utf-8")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}

    def run(script, **more):
        done = subprocess.run([STRESS / script], env=environment | more, capture_output=True, text=True, timeout=60, check=False)
        calls = tmp_path / "calls"
        lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return done, lines

    yield run
    run("test_stop.sh")


def variables_of(call):
    return dict(word.split("=", 1) for word in re.findall(r"-var (\S+)", call))


def test_starting_runs_the_server_then_the_clients(tools):
    done, calls = tools("test_start.sh", CONNECTIONS="100", STREAMS="7", RAMP_UP_PERIOD="9", TRANSPORT="ws-h2", DOCKER_REPOSITORY_ADDRESS="registry:1")
    assert done.returncode == 0, done.stderr
    server, asked, clients = calls
    assert server.startswith("nomad job run") and server.endswith("scripts/server.nomad")
    assert "localhost:8500/v1/health/service/rsocket-stress-test-server?passing" in asked
    assert clients.endswith("scripts/client.nomad")
    given = variables_of(clients)
    assert given["image"] == "registry:1/tiderace"
    assert (given["connections"], given["streams"], given["ramp_up_period"]) == ("100", "7", "9")
    assert (given["transport"], given["clients"], given["duration"]) == ("ws-h2", "2", str(3600 - 9 - 60))
    for call, name in ((server, "server.nomad"), (clients, "client.nomad")):
        assert set(variables_of(call)) <= set(labelled(parse(name)["variable"]))
    assert "after 3600s" in done.stdout

    done, calls = tools("test_stop.sh")
    assert done.returncode == 0, done.stderr
    stopped = [call for call in calls if "job stop" in call]
    assert stopped == ["nomad job stop -purge rsocket-stress-test-client", "nomad job stop -purge rsocket-stress-test-server"]


def test_the_test_ends_by_itself(tools, tmp_path):
    done, _ = tools("test_start.sh", STRESS_TEST_PERIOD="1")
    assert done.returncode == 0, done.stderr
    timer = int((tmp_path / f"rsocket-stress-test.{os.getuid()}.timer").read_text(encoding="utf-8"))
    calls = tmp_path / "calls"
    # The timer is not our child: its end shows in /proc.
    subprocess.run(["tail", f"--pid={timer}", "-f", "/dev/null"], timeout=60, check=True)
    assert calls.read_text(encoding="utf-8").count("job stop") == 2


@pytest.mark.parametrize("wrong", [{"CONNECTIONS": "many"}, {"STREAMS": "0"}, {"TRANSPORT": "udp"}])
def test_nonsense_is_refused_before_anything_runs(tools, wrong):
    done, calls = tools("test_start.sh", **wrong)
    assert done.returncode == 1 and calls == []
    assert next(iter(wrong)) in done.stderr


def test_the_image_is_built_and_pushed(tools):
    done, calls = tools("build_image.sh", DOCKER_REPOSITORY_ADDRESS="registry:1")
    assert done.returncode == 0, done.stderr
    assert calls[0].startswith("docker build --file ") and calls[1] == "docker push registry:1/tiderace"
