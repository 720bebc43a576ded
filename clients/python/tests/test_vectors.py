"""Every message of the protocol's vectors, read and written."""

from __future__ import annotations

from typing import Any

import pytest
from vectors import DELTAS, MESSAGES

from tiderace import _client_frames as c
from tiderace import _messages as m
from tiderace import _server_frames as s
from tiderace._delta import apply_delta, make_delta
from tiderace._framing import decode_client, decode_server, encode, split

REPLAYS = ("last", "version", "time")


def hexadecimal(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def auth_of(auth: c.Auth) -> dict[str, Any]:
    if isinstance(auth, c.Password):
        return {"auth": "password", "user": auth.user, "password": auth.password}
    if isinstance(auth, c.Token):
        return {"auth": "token", "token": auth.token}
    return {"auth": "anonymous"}


def destination_of(destination: c.Destination) -> dict[str, Any]:
    if destination.declared:
        return {"declared": destination.declared}
    return {"kind": destination.kind, "path": destination.path}


def subscribe_of(frame: c.Subscribe) -> dict[str, Any]:
    flags = frame.flags
    fields: dict[str, Any] = {
        "request": frame.request,
        "subscription": frame.subscription,
        "flags": flags,
        "kind": frame.kind,
        "path": frame.path,
    }
    if flags & m.SELECTOR:
        fields["selector"] = frame.selector
    if flags & m.WINDOW:
        fields["window"] = list(frame.window)
    if flags & m.RESUME:
        fields["position"] = frame.position.hex()
    if flags & m.REPLAY:
        fields["replay"] = [REPLAYS[frame.replay[0]], frame.replay[1]]
    if flags & m.INTERVAL:
        fields["interval_ms"] = frame.interval_ms
    if flags & m.START:
        fields["start"] = frame.start
    return fields


def client_fields(frame: c.ClientFrame) -> dict[str, Any]:
    """As the vectors write them; what is not there is left away."""
    fields: dict[str, Any]
    if isinstance(frame, c.Hello):
        fields = {"codecs": list(frame.codecs), "client": frame.client, "position": frame.position.hex()}
        return {"version": frame.version, **auth_of(frame.auth), **fields, **some(host=frame.host)}
    if isinstance(frame, c.Login):
        return {"request": frame.request, **auth_of(frame.auth)}
    if isinstance(frame, c.Subscribe):
        return subscribe_of(frame)
    if isinstance(frame, c.Publish):
        expires = {"expires_ms": frame.expires_ms} if frame.flags & m.EXPIRES else {}
        body = {"body": frame.body.hex(), **some(properties=text(frame.properties))}
        return {"request": frame.request, "flags": frame.flags, **destination_of(frame.destination), **expires, **body}
    if isinstance(frame, c.Settle):
        ranges = [[first, first + more] for first, more in frame.ranges]
        fields = {"request": frame.request, "subscription": frame.subscription, "home": frame.home}
        return {**fields, "reject": frame.outcome == 1, "ranges": ranges}
    if isinstance(frame, c.Call):
        fields = {"number": frame.number, "flags": frame.flags, "timeout_ms": frame.timeout_ms}
        return {**fields, **destination_of(frame.destination), "body": frame.body.hex()}
    if isinstance(frame, c.Send):
        return {
            "number": frame.number,
            "flags": frame.flags,
            "body": frame.body.hex(),
            **some(properties=text(frame.properties)),
        }
    if isinstance(frame, c.Cancel):
        fields = {"responder": frame.side == 1, "number": frame.number}
        return {**fields, "code": frame.code, "sentence": frame.sentence}
    if isinstance(frame, c.Operate):
        return {"request": frame.request, "operation": frame.operation, **some(body=hexadecimal(frame.body))}
    if isinstance(frame, c.Credit):
        return {"bytes": frame.size}
    if isinstance(frame, c.Ping):
        return {"bytes": frame.data.hex()}
    return {name: getattr(frame, name) for name in frame.__dataclass_fields__ if name != "TYPE"}


def some(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def entry_of(entry: s.Entry) -> dict[str, Any]:
    return {"flags": entry.flags, "body": entry.body.hex(), **some(properties=text(entry.properties))}


def server_fields(frame: s.ServerFrame) -> dict[str, Any]:
    fields = {name: getattr(frame, name) for name in frame.__dataclass_fields__ if name != "TYPE"}
    if isinstance(frame, s.Welcome):
        fields |= {"epoch": frame.epoch.hex(), "codecs": list(frame.codecs)}
    elif isinstance(frame, s.Updates):
        fields["entries"] = [
            {
                "flags": row.flags,
                "id": row.id,
                "version": row.version,
                "data": row.data.hex(),
                **some(properties=text(row.properties)),
            }
            for row in frame.entries
        ]
    elif isinstance(frame, s.Queued):
        fields["entries"] = [entry_of(row) for row in frame.entries]
    elif isinstance(frame, s.Result):
        fields["values"] = [entry_of(row) for row in fields.pop("entries")]
    elif isinstance(frame, s.Exchange):
        fields |= {"body": frame.body.hex(), "properties": text(frame.properties)}
        if not (frame.flags & m.FIRST and frame.flags & m.RESPONDER):
            del fields["id"]
    elif isinstance(frame, s.PositionFrame):
        fields["homes"] = [list(row) for row in frame.homes]
    elif isinstance(frame, s.Pong):
        fields = {"bytes": frame.data.hex()}
    elif isinstance(frame, s.Ended):
        fields["responder"] = fields.pop("side") == 1
    if isinstance(frame, s.Error | s.Ended | s.Close | s.Unsubscribed):
        fields["slug"] = fields.pop("name")
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row["name"])
def test_a_message_is_read_and_written_as_its_vector_says(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["hex"])
    frame: c.ClientFrame | s.ServerFrame
    if row["from"] == "client":
        [frame] = decode_client(data)
        found = client_fields(frame)
    else:
        [(frame, size)] = decode_server(data)
        assert size == len(data)
        found = server_fields(frame)
        # Left away where they say nothing.
        for name, nothing in (("features", 0), ("addresses", []), ("continues", False)):
            if name not in row["fields"] and found.get(name) == nothing:
                del found[name]
    assert getattr(m, row["type"]) == frame.TYPE
    assert found == row["fields"]
    # The length may be padded; the payload is the same.
    [(_, wanted, _)] = split(data)
    [(_, written, _)] = split(encode(frame))
    assert written.rest() == wanted.rest()


def test_every_message_of_the_protocol_has_a_vector() -> None:
    types = {frame.TYPE for frame in (*c.ClientFrame.__args__, *s.ServerFrame.__args__)}
    assert {getattr(m, row["type"]) for row in MESSAGES} == types


@pytest.mark.parametrize("row", DELTAS, ids=lambda row: row["name"])
def test_a_delta_makes_what_its_vector_says(row: dict[str, Any]) -> None:
    old, new, delta = (bytes.fromhex(row[name]) for name in ("old", "new", "delta"))
    assert apply_delta(old, delta) == new
    assert apply_delta(old, make_delta(old, new)) == new
