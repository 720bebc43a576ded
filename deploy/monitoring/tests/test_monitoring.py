"""Every expression of the boards and alerts is asked of a Prometheus that scrapes two loaded servers."""

import json
import math
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

MONITORING = Path(__file__).resolve().parent.parent
ROOT = MONITORING.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
#: The server; ./test has built it.
BINARY = Path(os.environ.get("TIDERACE_BINARY", TARGET / "release" / "tiderace"))
BOARDS = sorted((MONITORING / "grafana" / "dashboards").glob("*.json"))
PROMETHEUS = MONITORING / "prometheus"
#: Long enough for a busy machine; nothing waits for it unless something is missing.
TIMEOUT_S = 60
TOKEN = "a-token-of-the-test-that-is-long-enough"
#: A stretch of time that has several scrapes in it.
INTERVAL = "5s"

SOURCE = """
[server]
listen = ["127.0.0.1:0"]
shards = 2
[store]
directory = "{work}/store"
[monitoring]
metrics_access = "open"
[[token]]
name = "ann"
secret = "file:{work}/token"
[[rule]]
allow = ["publish", "subscribe", "create", "send", "receive", "browse", "serve", "call", "relay", "monitor", "operate", "admin", "manage"]
principals = ["user:ann"]
[[rule]]
allow = ["monitor", "operate", "admin", "subscribe"]
principals = ["user:ann"]
paths = ["$sys/**"]
[[feed]]
kind = "quotes"
path = "fx"
topics = 50
rate = 500
"""

EDGE = """
[server]
listen = ["127.0.0.1:0"]
shards = 2
[monitoring]
metrics_access = "open"
[store]
directory = "{work}/edge-store"
[[token]]
name = "ann"
secret = "file:{work}/token"
[[rule]]
allow = ["subscribe"]
principals = ["user:ann"]
[[upstream]]
name = "source"
urls = ["ws://{source}"]
token = "file:{work}/token"
topics = ["fx/**"]
"""

#: Panels that show something else than zero under this load, by their boards.
BUSY = {
    "Tiderace: overview": ["Connections", "In", "Out", "Latency", "Running for", "Messages", "Bytes", "Headroom"],
    "Tiderace: connections and protocols": ["Connections", "Coming and going", "Logins", "Files", "HTTP"],
    "Tiderace: topics and deltas": ["Topics and subscriptions", "Fan-out", "Saved by deltas", "Deltas", "Kept"],
    "Tiderace: queues and services": ["Depth", "Age of the oldest", "Bytes", "Queues", "Calls", "Services"],
    "Tiderace: store and runtime": ["Processor", "Memory", "Turns", "Store", "Commits", "Disk"],
}


class Processes:
    """What the test has started; ended with it."""

    def __init__(self):
        self.running = []

    def start(self, *command, **more):
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, text=True, **more)
        self.running.append(process)
        return process

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()


def expressions(board):
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = re.sub(r"\$(job|instance)\b", ".*", target["expr"])
            yield panel["title"], expression.replace("$__rate_interval", INTERVAL)


def boards():
    return [json.loads(path.read_text(encoding="utf-8")) for path in BOARDS]


def alerts():
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


class Loaded:
    """Two servers with clients, and a Prometheus that scrapes them."""

    def __init__(self, work, processes):
        (work / "token").write_text(TOKEN, encoding="utf-8")
        (work / "token").chmod(0o600)
        self.work, self.processes = work, processes
        self.source = self.serve("source", SOURCE)
        self.edge = self.serve("edge", EDGE, source=self.source)
        self.load()
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(PROMETHEUS / "alerts.yml")],
            "scrape_configs": [{"job_name": "tiderace", "static_configs": [{"targets": [self.source, self.edge]}]}],
        }
        (work / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        log = (work / "prometheus.log").open("w+", encoding="utf-8")
        processes.start(
            "prometheus",
            f"--config.file={work}/prometheus.yml",
            f"--storage.tsdb.path={work}/tsdb",
            "--web.listen-address=127.0.0.1:0",
            stderr=log,
            stdout=subprocess.DEVNULL,
        )
        self.prometheus = self.wait(lambda: self.said(r'msg="Listening on" address=(127\.0\.0\.1:\d+)'), "Prometheus listens")

    def said(self, pattern):
        found = re.search(pattern, (self.work / "prometheus.log").read_text(encoding="utf-8"))
        return found.group(1) if found else None

    def serve(self, name, config, **more):
        file = self.work / f"{name}.toml"
        file.write_text(config.format(work=self.work, **more), encoding="utf-8")
        log = (self.work / f"{name}.log").open("w", encoding="utf-8")
        self.processes.start(BINARY, "serve", "--config", file, "--log-format", "json", stderr=log, stdout=subprocess.DEVNULL)

        def listens():
            text = (self.work / f"{name}.log").read_text(encoding="utf-8")
            found = re.search(r'"event":"listening".*"address":"([^"]+)"', text)
            return found.group(1) if found and "server-started" in text else None

        return self.wait(listens, f"{name} listens")

    def command(self, *arguments, at=None):
        return [BINARY, *arguments, "-s", at or self.source, "-P", TOKEN]

    def begin(self, *arguments, at=None):
        log = (self.work / "commands.log").open("a", encoding="utf-8")
        self.processes.start(*self.command(*arguments, at=at), stdout=subprocess.DEVNULL, stderr=log)

    def run(self, *arguments):
        command = [str(part) for part in self.command(*arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S).stdout

    def load(self):
        for _ in range(3):
            self.begin("sub", "fx/**")
        self.begin("sub", "fx/**", at=self.edge)
        self.begin("respond", "--echo", "words/echo")
        self.begin("queues", "receive", "jobs", "--no-ack", "--prefetch", "10")
        self.begin("pub", "--queue", "jobs", "work", "--persistent", "--repeat", "100000", "--repeat-delay", "20ms")
        self.begin("pub", "--queue", "left", "work", "--repeat", "100000", "--repeat-delay", "100ms")
        self.begin("pub", "kept/a", "value", "--retain", "--repeat", "100000", "--repeat-delay", "50ms")
        # Who calls a service before it is there is refused.
        self.wait(lambda: "words/echo" in self.run("services", "ls"), "words/echo is served")

    def ask(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        url = f"http://{self.prometheus}/api/v1/query?{query}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                data = json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            pytest.fail(f"{expression}: {error.read().decode()}")
        values = [float(sample["value"][1]) for sample in data["result"]]
        return [value for value in values if math.isfinite(value)]

    @staticmethod
    def wait(look, what):
        until = time.monotonic() + TIMEOUT_S
        while not (found := look()):
            assert time.monotonic() < until, f"not within {TIMEOUT_S} s: {what}"
            time.sleep(0.2)
        return found


@pytest.fixture(scope="module", name="loaded")
def started(tmp_path_factory):
    assert BINARY.exists(), f"{BINARY} is missing; build it, or name another in TIDERACE_BINARY"
    processes = Processes()
    try:
        yield Loaded(tmp_path_factory.mktemp("monitoring"), processes)
    finally:
        processes.end()


def test_no_panel_is_empty_and_what_is_busy_is_seen(loaded):
    assert len(BOARDS) == len(BUSY)
    missing = []

    def is_there():
        loaded.run("call", "words/echo", "hello")
        missing.clear()
        for board in boards():
            shown = {}
            for title, expression in expressions(board):
                values = loaded.ask(expression)
                if not values:
                    missing.append(f"{board['title']}: {title}: {expression} is empty")
                shown.setdefault(title, []).extend(values)
            for title in BUSY[board["title"]]:
                if not any(value > 0 for value in shown[title]):
                    missing.append(f"{board['title']}: {title} is zero")
        return not missing

    try:
        loaded.wait(is_there, "every panel shows something")
    except AssertionError as error:
        raise AssertionError("\n".join(missing)) from error


def test_alerts_are_healthy_and_look_at_series_that_there_are(loaded):
    def evaluated():
        with urllib.request.urlopen(f"http://{loaded.prometheus}/api/v1/rules", timeout=10) as answer:
            groups = json.load(answer)["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else None

    rules = loaded.wait(evaluated, "rules are evaluated")
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
    assert len(rules) == len(alerts())
    for alert in alerts():
        selectors = re.findall(r"\b(?:up|(?:tiderace|process)_[a-z_]+)(?:\{[^}]*\})?", alert["expr"])
        assert selectors, alert["alert"]
        for selector in selectors:
            # A scrape that a busy machine has missed ends a series until the next one.
            assert loaded.ask(f"last_over_time({selector}[1m])"), f"{alert['alert']}: there is no {selector}"


def test_an_alarm_of_the_server_fires_an_alert_and_its_end_ends_it(loaded):
    def state():
        with urllib.request.urlopen(f"http://{loaded.prometheus}/api/v1/alerts", timeout=10) as answer:
            found = json.load(answer)["data"]["alerts"]
        return {alert["labels"]["alertname"]: alert for alert in found}

    assert "TideraceDraining" not in state()
    loaded.run("drain", "--over", "1h", "--delay", "1h", "--no-wait")
    alert = loaded.wait(lambda: state().get("TideraceDraining"), "the alert fires")
    assert (alert["state"], alert["labels"]["instance"]) == ("firing", loaded.source)
    assert "tiderace drain --cancel" in alert["annotations"]["description"]
    loaded.run("drain", "--cancel")
    loaded.wait(lambda: "TideraceDraining" not in state(), "the alert ends")


def promtool(*arguments, folder=PROMETHEUS):
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_prometheus_takes_the_rules_and_the_configuration():
    for arguments in [("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml")]:
        status, said = promtool(*arguments)
        assert status == 0, said


def test_each_alert_fires_and_ends(tmp_path):
    status, said = promtool("test", "rules", "alerts.test.yml")
    assert status == 0, said
    document = yaml.safe_load((PROMETHEUS / "alerts.test.yml").read_text(encoding="utf-8"))
    expected = {}
    for test in document["tests"]:
        for look in test["alert_rule_test"]:
            expected.setdefault(look["alertname"], []).append(bool(look["exp_alerts"]))
    assert expected == {alert["alert"]: [False, True, False] for alert in alerts()}
    # An alert that never fires is found out.
    rules = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8")
    (tmp_path / "alerts.yml").write_text(rules.replace('store-full\\"} == 1', 'store-full\\"} == 2'), encoding="utf-8")
    (tmp_path / "alerts.test.yml").write_text((PROMETHEUS / "alerts.test.yml").read_text(encoding="utf-8"), encoding="utf-8")
    status, said = promtool("test", "rules", "alerts.test.yml", folder=tmp_path)
    assert status != 0 and "TideraceStoreFull" in said


@pytest.mark.parametrize("board", boards(), ids=lambda board: board["uid"])
def test_a_board_is_whole(board):
    assert board["refresh"] == "30s"
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == ["datasource", "job", "instance"]
    taken = set()
    for panel in board["panels"]:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        for target in panel["targets"]:
            assert "rate(" not in target["expr"] or "$__rate_interval" in target["expr"], target["expr"]
            assert "$instance" in target["expr"], target["expr"]


def test_what_compose_mounts_is_there():
    compose = yaml.safe_load((MONITORING / "compose.yaml").read_text(encoding="utf-8"))
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (MONITORING / source).is_dir(), volume
    options = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    for name in compose["services"]["tiderace"]["environment"]:
        assert f"`{name}`" in options, name
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "([^"]+)"', manifest, re.M).group(1)
    assert compose["services"]["tiderace"]["image"] == f"localhost/tiderace:{version}"
