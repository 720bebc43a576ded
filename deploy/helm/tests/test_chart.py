"""The chart makes what Kubernetes takes and what the server starts with, and refuses values that would make something else.

The objects of each set in `values` are compared with `golden`; UPDATE_GOLDEN=1 writes these anew.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

HERE = Path(__file__).resolve().parent
CHART = HERE.parent / "tiderace"
ROOT = HERE.parent.parent.parent
MONITORING = ROOT / "deploy" / "monitoring"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
#: deploy/run-tests has built it.
HELM = Path(os.environ.get("HELM", TARGET / "tools" / "bin" / "helm"))
#: The server; ./test has built it.
BINARY = Path(os.environ.get("TIDERACE_BINARY", TARGET / "release" / "tiderace"))
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["version"]
SETS = sorted(path.stem for path in (HERE / "values").glob("*.yaml"))
#: From the version that the chart asks for to the newest whose schemas there are.
KUBERNETES = [f"1.{minor}" for minor in range(29, int(kubernetes_validate.latest_version().split(".")[1]) + 1)]
#: What is not Kubernetes's own.
OPERATOR = "monitoring.coreos.com/v1"
#: What each secret has that the sets name: keys of Secrets, and what is in them.
SECRETS = {
    "logins/ann": "a password of the test",
    "logins/bob-hash": "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$JLAvd8Hh7/5hYOGMQ7hZQ1jTgJ9tZ8WfXb0pN0Zk2xE",
    "feed/token": "a-token-of-the-test-that-is-long-enough",
    "shop/key": "a secret of the test that has more than 32 bytes",
    "source/token": "another-token-of-the-test-that-is-long-enough",
    "scrape/bearer": "a-third-token-of-the-test-that-is-long-enough",
}


def helm(*arguments):
    """Its status, what it says, and why it failed; links of the chart to files of deploy/monitoring are no news."""
    command = [str(HELM), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "\n".join(line for line in done.stderr.splitlines() if "found symbolic link" not in line)
    return done.returncode, done.stdout, said


@functools.cache
def rendered(name, *more):
    values = HERE / "values" / f"{name}.yaml"
    status, out, error = helm("template", "example", CHART, "--namespace", "push", "--values", values, *more)
    assert status == 0, error
    return out


@functools.cache
def parsed(name, *more):
    """As JSON, which is read quickly: who asks may change what it gets."""
    return json.dumps([part for part in yaml.load_all(rendered(name, *more), yaml.CSafeLoader) if part])


def objects(name, *more):
    return json.loads(parsed(name, *more))


def of_kind(name, kind, *more):
    return [part for part in objects(name, *more) if part["kind"] == kind]


def workload(name, *more):
    (only,) = of_kind(name, "Deployment", *more) + of_kind(name, "StatefulSet", *more)
    return only


def pod(name, *more):
    return workload(name, *more)["spec"]["template"]["spec"]


def container(name, *more):
    (only,) = pod(name, *more)["containers"]
    return only


def document(name, *more):
    """The text of tiderace.toml."""
    (text,) = [part["data"]["tiderace.toml"] for part in of_kind(name, "ConfigMap", *more) if "tiderace.toml" in part["data"]]
    return text


def seconds(duration):
    return int(duration.removesuffix("s"))


def test_lint_finds_nothing():
    for values in [[], *(["--values", HERE / "values" / f"{name}.yaml"] for name in SETS)]:
        status, out, error = helm("lint", "--strict", "--quiet", CHART, *values)
        assert status == 0, out + error


class Dumper(yaml.SafeDumper):
    """Shows texts of several lines as such."""


def text_of(dumper, text):
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Dumper.add_representer(str, text_of)


def shortened(parts):
    """Without what is a file of deploy/monitoring and has a test of its own, and without versions."""
    for part in parts:
        if part["metadata"]["name"].endswith("-dashboards"):
            part["data"] = sorted(part["data"])
        if part["kind"] == "PrometheusRule":
            part["spec"] = sorted(group["name"] for group in part["spec"]["groups"])
    text = yaml.dump_all(sorted(parts, key=lambda part: (part["kind"], part["metadata"]["name"])), Dumper=Dumper, width=120)
    return re.sub(rf"(tiderace[:-]|version: ){re.escape(VERSION)}\b", r"\1VERSION", text)


@pytest.mark.parametrize("name", SETS)
def test_the_objects_are_those_that_were_looked_at(name):
    golden = HERE / "golden" / f"{name}.yaml"
    now = shortened(objects(name))
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(now, encoding="utf-8")
    assert now == golden.read_text(encoding="utf-8"), "look at the difference; UPDATE_GOLDEN=1 takes it"


def test_there_are_eight_sets_and_no_more_golden_files():
    assert len(SETS) == 8
    assert sorted(path.stem for path in (HERE / "golden").glob("*.yaml")) == SETS


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_every_object(version):
    for name in SETS:
        for part in objects(name):
            if part["apiVersion"] != OPERATOR:
                kubernetes_validate.validate(part, version, strict=True)


def test_the_schema_of_objects_is_looked_at():
    part = workload("anonymous")
    part["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["minutes"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(part, KUBERNETES[0], strict=True)


def drain_of(container):
    """The span that the server is given."""
    (span,) = [entry["value"] for entry in container["env"] if entry["name"] == "TIDERACE_SERVER__DRAIN_OVER"]
    return span


@pytest.mark.parametrize("name", SETS)
def test_a_pod_has_the_time_to_sleep_to_drain_and_to_end(name):
    drain = drain_of(container(name))
    sleep = container(name)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod(name)["terminationGracePeriodSeconds"] == sleep + seconds(drain) + 50
    # What is left is as much as the server takes: for who is late to leave, to shut down, and to close.
    assert 50 >= 10 + seconds(server_default("server", "shutdown_grace")) + 30


def test_the_span_of_the_drain_is_said_once():
    for span in (0, 90, 86400):
        more = ("--set", f"drain.overSeconds={span}")
        assert drain_of(container("store", *more)) == f"{span}s"
        assert "drain_over" not in tomllib.loads(document("store", *more))["server"]
        assert pod("store", *more)["terminationGracePeriodSeconds"] == 15 + span + 50


@functools.cache
def server_schema():
    said = subprocess.run([str(BINARY), "config", "schema"], capture_output=True, text=True, check=True).stdout
    return json.loads(said)["properties"]


def server_default(section, option):
    return server_schema()[section]["properties"][option]["default"]


def credentials(text):
    """Sections, options and values of what the server takes as a secret or the hash of one."""
    schema = server_schema()
    for section, value in tomllib.loads(text).items():
        for row in value if isinstance(value, list) else [value]:
            options = schema[section].get("items", schema[section])["properties"]
            yield from ((section, key, row[key]) for key in row if "file:" in options[key].get("pattern", ""))


def test_no_secret_stands_in_a_config_map():
    found = [row for name in SETS for row in credentials(document(name))]
    assert {row[:2] for row in found} >= {("user", "password"), ("user", "password_hash"), ("token", "secret"), ("jwt", "secret")}
    assert all(re.match("(file|env):", value) for _, _, value in found), found
    for name in SETS:
        assert not of_kind(name, "Secret")
        text = rendered(name)
        assert not [value for value in SECRETS.values() if value in text]


@pytest.mark.parametrize("name", SETS)
def test_what_the_configuration_reads_is_mounted(name):
    mounts = {mount["mountPath"]: mount for mount in container(name)["volumeMounts"]}
    for folder, _ in re.findall(r"(/etc/tiderace/secrets/[^/\"]+)/([^\"]+)", document(name)):
        assert mounts[folder]["readOnly"] is True
    (config,) = [argument for argument in container(name)["args"] if argument.endswith(".toml")]
    assert mounts[os.path.dirname(config)]["name"] == "config"
    volumes = [volume["name"] for volume in pod(name)["volumes"]]
    claims = workload(name)["spec"].get("volumeClaimTemplates", [])
    assert sorted(mount["name"] for mount in mounts.values()) == sorted(volumes + [claim["metadata"]["name"] for claim in claims])


def here(name, work):
    """The configuration of a set with the places of this machine in it instead of those of the pod."""
    secrets = work / "secrets"
    for path, content in SECRETS.items():
        (secrets / path).parent.mkdir(parents=True, exist_ok=True)
        (secrets / path).write_text(content, encoding="utf-8")
    pair = secrets / "push-tls"
    pair.mkdir()
    subject = ["-subj", "/CN=push.example.org", "-addext", "subjectAltName=DNS:push.example.org"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(pair / "tls.key")]
    command = ["openssl", "req", "-x509", *key, "-days", "30", "-out", str(pair / "tls.crt"), *subject]
    subprocess.run(command, check=True, capture_output=True)
    # As the kubelet lays them for the pod's group.
    (pair / "tls.key").chmod(0o440)
    text = document(name).replace("/etc/tiderace/secrets", str(secrets)).replace("/var/lib/tiderace", str(work / "data"))
    text = re.sub(r'"\*:\d+"', '"127.0.0.1:0"', text)
    path = work / "tiderace.toml"
    path.write_text(text, encoding="utf-8")
    return path


def environment(name):
    """What the pod's environment says to the server."""
    own = {entry["name"]: entry.get("value", "a password of the test") for entry in container(name)["env"]}
    return {**os.environ, **own, "TIDERACE_SERVER__NODE": "example-0"}


@pytest.mark.parametrize("name", SETS)
def test_the_server_takes_the_configuration(name, tmp_path):
    command = [str(BINARY), "config", "check", "--config", str(here(name, tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(name))
    assert done.returncode == 0, done.stdout + done.stderr


def started(name, work):
    """The server with a set's configuration, and the address of each listener by its name."""
    command = [str(BINARY), "serve", "--config", str(here(name, work)), "--log-format", "json"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(name))
    addresses = {}
    for line in server.stderr:
        event = json.loads(line)
        if event.get("event") == "listening":
            addresses[event["listener"]] = event["address"]
        if event.get("event") == "server-started":
            return server, addresses
    server.wait(30)
    raise AssertionError(f"the server has ended with {server.returncode}")


def status_of(address, path, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", headers=headers), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("name", SETS)
def test_a_server_so_configured_answers_its_probes(name, tmp_path):
    server, addresses = started(name, tmp_path)
    try:
        ports = {port["name"] for port in container(name)["ports"]}
        assert set(addresses) == ports
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container(name)[probe]["httpGet"]
            assert status_of(addresses[asked["port"]], asked["path"]) == 200, probe
        for host in names(name):
            assert status_of(addresses["operators"], "/livez", Host=host) == 200, host
        for monitor in of_kind(name, "ServiceMonitor"):
            (endpoint,) = monitor["spec"]["endpoints"]
            wanted = endpoint["authorization"]["credentials"]
            bearer = {"Authorization": f"Bearer {SECRETS[wanted['name'] + '/' + wanted['key']]}"}
            assert status_of(addresses[endpoint["port"]], endpoint["path"], **bearer) == 200
    finally:
        server.kill()
        server.wait(30)


def names(name):
    """Those under which the Services and the Ingress lead to the server."""
    services = [part["metadata"]["name"] for part in of_kind(name, "Service")]
    # Replicas have names below that of the headless one.
    services += [f"example-0.{service}" for service in services if service.endswith("-headless")]
    hosts = [rule["host"] for ingress in of_kind(name, "Ingress") for rule in ingress["spec"]["rules"]]
    return [*services, *(f"{service}.push:7800" for service in services), *(f"{service}.push.svc" for service in services), *hosts]


def test_names_of_others_lead_nowhere_without_logins(tmp_path):
    more = ("--set", "ingress.enabled=true,ingress.hosts[0].host=push.example.org")
    hosts = tomllib.loads(document("anonymous", *more))["server"]["hosts"]
    assert "push.example.org" in hosts and "example-tiderace.push.svc.cluster.local" in hosts
    server, addresses = started("anonymous", tmp_path)
    try:
        assert status_of(addresses["clients"], "/livez", Host="push.example.org") == 421
    finally:
        server.kill()
        server.wait(30)
    # With logins nothing is held back unless the values say so.
    assert "hosts" not in tomllib.loads(document("users"))["server"]
    assert tomllib.loads(document("anonymous", "--set", "config.server.hosts={a.example}"))["server"]["hosts"] == ["a.example"]


def test_rules_and_boards_are_the_files_that_are_tested():
    (rule,) = of_kind("monitored", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((MONITORING / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    (boards,) = [part for part in of_kind("monitored", "ConfigMap") if part["metadata"]["name"].endswith("-dashboards")]
    files = list((MONITORING / "grafana" / "dashboards").glob("*.json"))
    assert files and set(boards["data"]) == {f"tiderace-{path.name}" for path in files}
    for path in files:
        assert json.loads(boards["data"][f"tiderace-{path.name}"]) == json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SETS)
def test_names_lead_to_the_pods_and_their_ports(name):
    labels = workload(name)["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in container(name)["ports"]}
    assert workload(name)["spec"]["selector"]["matchLabels"].items() <= labels.items()
    services = {part["metadata"]["name"]: part for part in of_kind(name, "Service")}
    for service in services.values():
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for policy in of_kind(name, "NetworkPolicy") + of_kind(name, "PodDisruptionBudget"):
        selector = policy["spec"].get("podSelector") or policy["spec"]["selector"]
        assert selector["matchLabels"].items() <= labels.items()
    # What is for operators is in no Service that others reach.
    public = {part["metadata"]["name"] for part in services.values() if "operators" not in str(part["spec"]["ports"])}
    assert {name for name, part in services.items() if part["spec"]["type"] != "ClusterIP"} <= public
    for ingress in of_kind(name, "Ingress"):
        backends = [path["backend"]["service"]["name"] for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]]
        assert backends and set(backends) <= public
    for monitor in of_kind(name, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (found,) = [part for part in services.values() if wanted <= part["metadata"]["labels"].items()]
        assert {entry["port"] for entry in monitor["spec"]["endpoints"]} <= {port["name"] for port in found["spec"]["ports"]}


def test_a_store_makes_a_stateful_set_with_a_volume():
    part = workload("store-large")
    assert part["kind"] == "StatefulSet" and workload("users")["kind"] == "Deployment"
    assert part["spec"]["serviceName"] in [service["metadata"]["name"] for service in of_kind("store-large", "Service")]
    (claim,) = part["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    directory = tomllib.loads(document("store-large"))["store"]["directory"]
    (mount,) = [mount for mount in container("store-large")["volumeMounts"] if directory.startswith(mount["mountPath"])]
    assert mount["name"] == claim["metadata"]["name"]
    assert workload("users")["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("name", SETS)
def test_a_pod_has_no_rights(name):
    outer, inner = pod(name)["securityContext"], container(name)["securityContext"]
    assert outer["runAsNonRoot"] is True and outer["runAsUser"] == 65532
    assert outer["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inner["readOnlyRootFilesystem"] is True and inner["allowPrivilegeEscalation"] is False
    assert inner["capabilities"] == {"drop": ["ALL"]}
    assert pod(name)["automountServiceAccountToken"] is False


def test_a_changed_configuration_brings_new_pods_unless_the_server_reads_it_again():
    def annotations(name, *more):
        return workload(name, *more)["spec"]["template"]["metadata"]["annotations"]

    changed = ("--set", "config.log.level=debug")
    assert annotations("store")["checksum/config"] != annotations("store", *changed)["checksum/config"]
    assert annotations("users") == annotations("users", *changed)
    assert tomllib.loads(document("users"))["server"]["reload_interval"] == "30s"


@pytest.mark.parametrize(
    ("limit", "budget"),
    [("1Gi", 1 << 28), ("1.5Gi", 3 << 27), ("512Mi", 1 << 27), ("2G", 500_000_000), ("1073741824", 1 << 28)],
)
def test_the_server_keeps_a_quarter_of_what_its_pod_may_have(limit, budget):
    assert tomllib.loads(document("anonymous", "--set-string", f"resources.limits.memory={limit}"))["memory"] == {"messages_bytes_max": budget}
    assert tomllib.loads(document("store-large"))["memory"] == {"messages_bytes_max": "6 GiB"}
    assert "memory" not in tomllib.loads(document("closed"))


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--set", "sizes=3"], "sizes"),
        (["--set", "drain.overSeconds=-1"], "overSeconds"),
        (["--set", "drain.overSeconds=1m"], "overSeconds"),
        (["--set", "drain.sleepSeconds=0"], "sleepSeconds"),
        (["--set", "config.server.listen={0.0.0.0:1}"], "listen"),
        (["--set", "config.server.drain_over=5m"], "drain_over"),
        (["--set", "config.server.shutdown_grace=5m"], "shutdown_grace"),
        (["--set", "config.store.directory=/x"], "directory"),
        (["--set", "config.monitoring.health_access=authorised"], "health_access"),
        (["--set", "config.servers.hosts={a}"], "servers"),
        (["--set", "config.log.level=loud"], "level"),
        (["--set", "config.user[0].name=ann,config.user[0].password=clear"], "password"),
        (["--set", "config.user[0].name=ann,config.user[0].password_hash=$argon2id$v=19"], "password_hash"),
        (["--set", "config.token[0].name=ann,config.token[0].secret=sha256:00"], "secret"),
        (["--set", "config.jwt[0].name=ann,config.jwt[0].secret=clear"], "secret"),
        (["--set", "secrets={Upper}"], "secrets"),
        (["--set", "listeners[0].name=stomp,listeners[0].port=7801"], "port"),
        (["--set", "listeners[0].name=operators,listeners[0].port=7802"], "name"),
        (["--set", "store.size=lots"], "size"),
        (["--set", "store.accessModes={ReadWriteMany}"], "accessModes"),
        (["--set", "service.type=External"], "type"),
        (["--set", "image.digest=sha256:12"], "digest"),
        (["--set", "resources.limits.memory=much"], "memory"),
        (["--set-string", "replicas=2"], "replicas"),
        (["--set", "fullnameOverride=Upper"], "fullnameOverride"),
        (["--set", "fullnameOverride=2push"], "fullnameOverride"),
        (["--set", "fullnameOverride=" + "a" * 46], "fullnameOverride"),
    ],
)
def test_bad_values_are_refused(more, word):
    status, _, error = helm("template", "example", CHART, "--values", HERE / "values" / "anonymous.yaml", *more)
    assert status != 0 and "don't meet the specifications of the schema" in error
    assert word in error, error


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "anybody could log in"),
        (["--set", "config.auth.allow_anonymous=true", "--set", "metrics.token.secret=scrape"], "give config.rule"),
        (["--set", "config.auth.allow_anonymous=true", "--set", "ingress.enabled=true"], "ingress.hosts is empty"),
    ],
)
def test_what_could_not_serve_is_not_installed(more, words):
    status, _, error = helm("template", "example", CHART, *more)
    assert status != 0 and words in error


def test_a_server_open_to_anybody_would_not_start(tmp_path):
    """For which the chart refuses it: that this is so is the server's word."""
    config = tmp_path / "tiderace.toml"
    config.write_text('[server]\nlisten = ["0.0.0.0:0"]\n', encoding="utf-8")
    done = subprocess.run([str(BINARY), "config", "check", "--config", str(config)], capture_output=True, text=True, check=False)
    assert done.returncode != 0


def test_the_schema_of_values_has_the_options_of_the_server():
    """That it has them as they are now is a test of `cargo xtask docs`, which writes it."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    sections = schema["properties"]["config"]["properties"]
    assert set(server_schema()) - set(sections) == {"listener", "development"}
    assert sections["limits"] == server_schema()["limits"]


@pytest.fixture(scope="module", name="noted")
def with_notes(tmp_path_factory):
    """A copy of the chart that has what it tells its user as an object: Helm itself tells it only with a cluster."""
    chart = tmp_path_factory.mktemp("noted") / "tiderace"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "files" / "NOTES.txt")
    notes = 'notes: {{ tpl (.Files.Get "files/NOTES.txt") . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text(notes, encoding="utf-8")
    return chart


@pytest.mark.parametrize("name", SETS)
def test_the_notes_say_how_to_reach_it(name, noted):
    more = ("--namespace", "push", "--values", HERE / "values" / f"{name}.yaml", "--show-only", "templates/notes.yaml")
    status, out, error = helm("template", "example", noted, *more)
    assert status == 0, error
    notes = yaml.safe_load(out)["notes"]
    (service,) = [part["metadata"]["name"] for part in of_kind(name, "Service") if part["metadata"]["name"].endswith("-operators")]
    assert f"port-forward service/{service} 7801" in notes
    assert f"{workload(name)['kind'].lower()}/{workload(name)['metadata']['name']}" in notes
    assert ("each with topics and queues of its own" in notes) == (workload(name)["spec"]["replicas"] > 1)
    assert ("Anybody who reaches" in notes) == ("auth" in tomllib.loads(document(name)))
