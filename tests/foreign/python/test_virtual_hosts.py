"""Virtual hosts by stomp.py, beside plain HTTP: two tenants with the same names, who is bound to one, and the operator.

The server's configuration has the hosts `shop` (`shop.example`, `*.shop.example`) and `bank` (`bank.example`). The user
`tide` may log in everywhere, `keeper` and the token `till` in `shop` alone.
"""

import base64
import http.client
import json

import pytest
from conftest import HOST, KINDS, LOGIN, PASSCODE, PORT, WAIT, Listener, Peer, is_quiet, make, unique

CREDENTIALS = base64.b64encode(f"{LOGIN}:{PASSCODE}".encode()).decode()
HOSTED = ["1.1", "1.2", "websocket"]


@pytest.fixture
def tenant(peer):
    """Connections that name a host."""
    return lambda host, kind="1.2", **options: peer(kind, vhost=host, **options)


def ask(host, method, path, body=None, authorization=f"Basic {CREDENTIALS}"):
    """The status and the JSON of an answer to a request to a host."""
    connection = http.client.HTTPConnection(HOST, int(PORT), timeout=WAIT)
    head = {"Host": host, "Authorization": authorization, "Content-Type": "application/json"}
    connection.request(method, path, body, head)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text) if text else None


def operate(host, do, **fields):
    status, given = ask(host, "POST", "/operations", json.dumps({"do": do, **fields}))
    assert status == 200, given
    return given


def queues(host, pattern):
    """The queues that a host shows, page by page, and how many messages each has."""
    found, after = {}, {}
    while True:
        page = operate(host, "queues", pattern=pattern, **after)
        found |= {queue["path"]: queue["messages"] for queue in page["queues"]}
        if not page["more"]:
            return found
        after = {"after": page["next"]}


@pytest.mark.parametrize("kind", HOSTED)
def test_tenants_with_the_same_names_do_not_see_one_another(tenant, peer, kind):
    name = unique("same")
    shop, bank, whole = tenant("shop.example", kind), tenant("BANK.example:7800", kind), peer(kind)
    for one in (shop, bank):
        one.subscribe(f"/topic/{name}.*")
    whole.subscribe(f"/topic/*.{name}.*")
    shop.publish(f"/topic/{name}.a", "of the shop")
    bank.publish(f"/topic/{name}.a", "of the bank")
    for one, body in ((shop, "of the shop"), (bank, "of the bank")):
        frame = one.next()
        assert (frame.headers["destination"], frame.body) == (f"/topic/{name}.a", body)
        assert is_quiet(one)
    seen = sorted((frame.headers["destination"], frame.body) for frame in (whole.next(), whole.next()))
    assert seen == [(f"/topic/@bank.{name}.a", "of the bank"), (f"/topic/@shop.{name}.a", "of the shop")]


def test_queues_and_their_operations(tenant, peer):
    name = f"managed/{unique('jobs')}"
    shop, bank, whole = tenant("a.shop.example"), tenant("bank.example"), peer()
    for one, body in ((shop, "of the shop"), (bank, "of the bank")):
        for _ in range(2):
            one.publish(f"/queue/{name}", body)
    for host, path in (("shop.example", name), ("bank.example", name), ("127.0.0.1", f"@shop/{name}")):
        assert queues(host, path) == {path: 2}
    assert not [path for path in queues("bank.example", "**") if path.startswith("@")]
    # What fails dies in its host, and goes back there.
    consumer = tenant("shop.example")
    id = consumer.subscribe(f"/queue/{name}", ack="client-individual")
    for _ in range(4):
        consumer.nack(consumer.next())
    consumer.unsubscribe(id)
    dead = operate("shop.example", "peek", path=f"dlq/{name}")["messages"]
    assert [message["properties"]["dead-letter-queue"] for message in dead] == [name, name]
    assert operate("shop.example", "redrive", path=f"dlq/{name}")["messages"] == 2
    assert operate("shop.example", "move", **{"from": name, "to": f"{name}/other", "limit": 1})["messages"] == 1
    assert operate("shop.example", "purge", path=name)["messages"] == 1
    bank.subscribe(f"/queue/{name}")
    assert bank.texts(2) == ["of the bank"] * 2
    whole.subscribe(f"/queue/@shop/{name}/other")
    assert whole.next().body == "of the shop"


def test_durable_subscriptions_of_one_name(tenant, peer):
    name, topic = unique("durable"), f"/topic/{unique('t')}"
    consumers = {host: tenant(host) for host in ("shop.example", "bank.example")}
    for one in consumers.values():
        one.receipt(one.connection.subscribe, f"{topic}.*", id=name, headers={"persistent": "true"})
    consumers["shop.example"].publish(f"{topic}.a", "of the shop")
    frame = consumers["shop.example"].next()
    assert frame.body == "of the shop"
    assert frame.headers["destination"] == f"{topic}.a"
    assert frame.headers["source-topic"] == f"{topic}.a".removeprefix("/topic/").replace(".", "/")
    assert is_quiet(consumers["bank.example"])
    assert {f"dsub/@shop/{name}", f"dsub/@bank/{name}"} <= queues("127.0.0.1", "dsub/**").keys()
    assert f"dsub/{name}" in queues("bank.example", "dsub/**")


def test_requests_and_replies_by_temporary_queues(tenant):
    service = f"/queue/{unique('service')}"
    server, client = tenant("shop.example"), tenant("shop.example")
    server.subscribe(service)
    client.subscribe("/temp-queue/answers")
    client.publish(service, "2 + 2", headers={"reply-to": "/temp-queue/answers"})
    frame = server.next()
    server.publish(frame.headers["reply-to"], "4")
    assert client.next().body == "4"


@pytest.mark.parametrize("path", ["@bank/{}", "@shop/{}", "%2E%2E/{}", "$sys/%2E%2E/{}"])
def test_no_name_leads_out_of_a_host(tenant, peer, path):
    name = unique("out")
    shop, bank, whole = tenant("shop.example"), tenant("bank.example"), peer()
    shop.subscribe(f"/topic/{path.format(name)}")
    bank.publish(f"/topic/{name}", "of the bank")
    whole.publish(f"/topic/{name}", "of the operator")
    assert is_quiet(shop)


def attempt(vhost, login, passcode):
    """A connection whose CONNECT may be refused."""
    one = Peer.__new__(Peer)
    one.kind, one.listener = "1.2", Listener()
    one.connection = make("1.2", (0, 0), {"vhost": vhost})
    one.connection.set_listener("", one.listener)
    one.connection.connect(login, passcode, wait=False)
    return one


@pytest.mark.parametrize("vhost", ["bank.example", "other.example", "/", "shop.example.", "x" * 3000])
def test_a_user_who_is_bound_to_a_host_is_refused_elsewhere(vhost):
    one = attempt(vhost, "keeper", "tide-passcode")
    if vhost == "shop.example.":
        # The root of names is part of the same name.
        one.receipt(one.connection.send, f"/topic/{unique('t')}", "x")
        return one.close()
    error = one.next("error")
    assert error.headers["code"] == "wrong-host"
    one.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_who_is_bound_to_a_host_is_there(peer, kind):
    name = unique("bound")
    # By STOMP 1.0 and by nothing else no host is named: the user has one.
    options = {} if kind == "1.0" else {"vhost": "shop.example"}
    keeper = peer(kind, login="keeper", **options)
    tide = peer("1.2", vhost="shop.example")
    tide.subscribe(f"/topic/{name}")
    keeper.publish(f"/topic/{name}", "hello")
    assert tide.next().body == "hello"


def test_http_by_its_host():
    name = unique("rest")
    assert ask("shop.example", "PUT", f"/topics/{name}", '"of the shop"')[0] == 200
    assert ask("bank.example:7800", "PUT", f"/topics/{name}", '"of the bank"')[0] == 200
    for host, path, value in [
        ("x.SHOP.example:80", name, "of the shop"),
        ("bank.example", name, "of the bank"),
        ("127.0.0.1", f"@bank/{name}", "of the bank"),
    ]:
        assert ask(host, "GET", f"/topics/{path}") == (200, value)
    assert ask("127.0.0.1", "GET", f"/topics/{name}")[0] == 404
    assert ask("shop.example", "GET", f"/topics/@bank/{name}")[0] == 404
    for host, status in (("shop.example", 200), ("bank.example", 403), ("127.0.0.1", 403)):
        got, answer = ask(host, "GET", f"/topics/@x/{name}", authorization="Bearer till-of-the-shop")
        assert got == (404 if status == 200 else status), answer
        if status == 403:
            assert answer["code"] == "wrong-host"


def test_an_idempotency_key_is_one_of_its_host():
    key, name = unique("key"), unique("once")
    for host in ("shop.example", "bank.example"):
        connection = http.client.HTTPConnection(HOST, int(PORT), timeout=WAIT)
        head = {"Host": host, "Authorization": f"Basic {CREDENTIALS}", "Idempotency-Key": key}
        connection.request("POST", f"/queues/{name}", "x", head)
        response = connection.getresponse()
        assert (response.status, response.getheader("Idempotency-Replayed")) == (200, None), response.read()
        connection.close()
        assert operate(host, "queue", path=name)["messages"] == 1
