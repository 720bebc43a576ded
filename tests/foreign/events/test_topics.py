"""Topics that hold values, by requests and curl: specifications, conditions, patches, pages, histories, views."""

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from conftest import BASE, TOKEN, call, curl, until

JSON = {"Content_Type": "application/json"}


def operate(**operation):
    answer = call("POST", "/operations", json.dumps(operation), **JSON)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_create_and_be_held_to_the_specification(topic):
    spec = json.dumps({"type": "json", "schema": {"required": ["bid"]}, "history": 5})
    assert call("PUT", f"/topics/{topic}?create", spec, **JSON).json() == {"existed": False}
    assert call("PUT", f"/topics/{topic}?create", spec, **JSON).json() == {"existed": True}
    other = call("PUT", f"/topics/{topic}?create", '{"type":"string"}', **JSON)
    assert (other.status_code, other.json()["code"]) == (409, "topic-exists")
    wrong = call("PUT", f"/topics/{topic}", '{"ask":1}', **JSON)
    assert wrong.status_code == 422 and "bid" in wrong.json()["message"]
    assert call("PUT", f"/topics/{topic}", '{"bid":1}', **JSON).status_code == 200


def test_of_ten_who_update_one_version_one_wins(topic):
    first = call("PUT", f"/topics/{topic}", b"0", If_None_Match="*")
    assert first.status_code == 200
    assert call("PUT", f"/topics/{topic}", b"0", If_None_Match="*").status_code == 412
    tag = call("GET", f"/topics/{topic}").headers["ETag"]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda n: call("PUT", f"/topics/{topic}", str(n), If_Match=tag), range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 9
    winner = next(n for n, answer in enumerate(answers) if answer.status_code == 200)
    assert call("GET", f"/topics/{topic}").text == str(winner)


def test_patches(topic):
    call("PUT", f"/topics/{topic}", '{"bid":1,"list":[1,2]}', **JSON)
    steps = [{"op": "test", "path": "/bid", "value": 1}, {"op": "add", "path": "/list/-", "value": 3}]
    done = call("PATCH", f"/topics/{topic}", json.dumps(steps), Content_Type="application/json-patch+json")
    again = call("PATCH", f"/topics/{topic}", '{"bid":null}', Content_Type="application/merge-patch+json")
    assert again.json()["version"] == done.json()["version"] + 1
    assert call("GET", f"/topics/{topic}").json() == {"list": [1, 2, 3]}
    failed = call("PATCH", f"/topics/{topic}", json.dumps(steps), Content_Type="application/json-patch+json")
    assert (failed.status_code, failed.json()["code"]) == (422, "bad-patch")


def test_pages_in_the_order_of_paths(topic):
    names = sorted(f"{topic}/{a}/{n}" for a in "ab" for n in range(10))
    for name in reversed(names):
        call("PUT", f"/topics/{name}", b"x")
    found, after = [], ""
    while True:
        page = call("GET", f"/topics?selector={quote(topic + '/**')}&values=true&limit=7{after}").json()
        found += [entry["path"] for entry in page["topics"]]
        if not page["more"]:
            break
        after = f"&after={quote(page['next'])}"
    assert found == names
    roots = call("GET", f"/topics?selector={quote(topic + '/**')}&depth=2").json()
    assert [entry["path"] for entry in roots["topics"]] == [f"{topic}/a", f"{topic}/b"]
    assert operate(do="remove", selector=f"{topic}/a/*") == {"topics": 10}
    assert len(operate(do="fetch", selector=f"{topic}/**")["topics"]) == 10


def test_history(topic):
    operate(do="create", path=topic, spec={"history": 5})
    versions = [operate(do="update", path=topic, value=n)["version"] for n in range(8)]
    last = call("GET", f"/topics/{topic}?history&last=3").json()
    assert [(event["version"], event["value"]) for event in last["events"]] == list(zip(versions, range(8)))[-3:]
    kept = call("GET", f"/topics/{topic}?history&version={versions[0]}").json()
    assert [event["value"] for event in kept["events"]] == [3, 4, 5, 6, 7]
    assert all(event["time"] > 1.7e12 for event in kept["events"])


def test_a_series_and_its_amendment(topic):
    operate(do="create", path=topic, spec={"type": "timeseries", "history": 10})
    first = operate(do="update", path=topic, value=1)["version"]
    operate(do="update", path=topic, value=2)
    operate(do="amend", path=topic, version=first, value=10)
    events = operate(do="history", path=topic)["events"]
    assert [event["value"] for event in events] == [10, 2]


def test_streams_begin_in_what_is_kept(listen, topic):
    operate(do="create", path=topic, spec={"history": 5})
    for n in range(8):
        operate(do="update", path=topic, value=n)
    stream = listen(f"topic={topic}&replay=last:3")
    operate(do="update", path=topic, value=8)
    assert stream.data(4) == ["5", "6", "7", "8"]


def test_a_view(topic):
    text = f"map {topic}/from/* to {topic}/to/<path(2)> set /sum = /a + /b"
    assert call("PUT", f"/views/{topic}", text).status_code == 200
    call("PUT", f"/topics/{topic}/from/x", '{"a":1,"b":2}', **JSON)
    assert [view["text"] for view in call("GET", "/views").json()["views"] if view["name"] == topic] == [text]
    value = until("the view's output", lambda: call("GET", f"/topics/{topic}/to/x").json().get("sum"))
    assert value == 3
    foreign = call("PUT", f"/topics/{topic}/to/x", b"1")
    assert (foreign.status_code, foreign.json()["code"]) == (403, "topic-read-only")
    assert call("DELETE", f"/views/{topic}").status_code == 200


@pytest.mark.parametrize("kind", ["application/json-patch+json", "application/merge-patch+json"])
def test_by_curl(topic, kind):
    token = ["-H", f"Authorization: Bearer {TOKEN}"]
    url = f"{BASE}/topics/{topic}"
    assert curl(*token, "-X", "PUT", "-H", "If-None-Match: *", "-d", '{"a":1}', url)[0] == 200
    assert curl(*token, "-X", "PUT", "-H", "If-None-Match: *", "-d", '{"a":1}', url)[0] == 412
    patch = '[{"op":"add","path":"/b","value":2}]' if "json-patch" in kind else '{"b":2}'
    status, _, body = curl(*token, "-X", "PATCH", "-H", f"Content-Type: {kind}", "-d", patch, url)
    assert status == 200 and b"version" in (body if isinstance(body, bytes) else body.encode())
    assert json.loads(curl(*token, url)[2]) == {"a": 1, "b": 2}
