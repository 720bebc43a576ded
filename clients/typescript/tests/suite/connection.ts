/** Connecting, losing, coming back: transports, states, liveness, what waits. */
import { Writer } from "../../src/bytes.js";
import type { Client, State } from "../../src/index.js";
import * as m from "../../src/messages.js";
import { equal, ok, rejects, Seen, test } from "../harness.js";
import { Peer } from "../peer.js";

function states(client: Client): Seen<State> {
  const seen = new Seen<State>();
  client.on("state", seen.push);
  return seen;
}

test("connection", "states follow each other", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = states(client);
  const address = `${peer.url}/`;
  equal(await seen.next(), { status: "connecting", attempt: 0, transport: "websocket", address });
  await peer.welcomes();
  equal(await seen.next(), { status: "connected", transport: "websocket", address, name: "ann", server: "fake" });
  await peer.cut();
  const waiting = await seen.next();
  equal(waiting.status === "waiting" && [waiting.attempt, waiting.reason.code], [1, "connection-lost"]);
  equal((await seen.next()).status, "connecting");
  await peer.welcomes();
  equal((await seen.next()).status, "connected");
  client.close();
  const closed = await seen.next();
  equal(closed.status === "closed" && closed.reason.code, "closed");
  await peer.hears("BYE");
  equal((await peer.event("closed")).kind, "closed");
  await rejects(client.topic("a").publish(1), "closed");
  await rejects(client.topic("a").subscribe().ready, "closed");
});

test("connection", "where WebSocket is not let through, polling does the same", async (place, after) => {
  const peer = await Peer.begin(place, after, { refuse: ["websocket"], maxPayload: 400 });
  const client = peer.client(after, { name: "poller" });
  const seen = new Seen<unknown>();
  client.topic("a").subscribe(seen.push);
  await peer.welcomes();
  equal(peer.transport, "polling");
  await peer.hears("SUBSCRIBE");
  await peer.ok(1);
  await peer.update(0, 1, "1");
  await peer.update(0, 2, "2");
  equal([await seen.next(), await seen.next()], [1, 2]);
  await place.fakes.text(peer.id, peer.link, "6");
  await place.fakes.text(peer.id, peer.link, "2");
  equal((await peer.event("packet")).text, "3");
  const published = [1, 2, 3, 4, 5, 6].map((value) => client.topic("b").publish(`${value}`.repeat(100)));
  for (let count = 0; count < 6; count++) {
    let said = await peer.hears(count === 1 ? "DECLARE" : "PUBLISH");
    if (said.name === "DECLARE") said = await peer.hears("PUBLISH");
    await peer.ok(said.input.varint());
  }
  await Promise.all(published);
  const state = client.state;
  equal(state.status === "connected" && state.transport, "polling");
  await peer.cut();
  await peer.welcomes();
  equal(peer.transport, "polling", "what has worked is tried first");
  client.close();
  await peer.event("closed");
});

test("connection", "a poller whose requests get no answer connects anew, also while the held one lives", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after, { transports: ["polling"], pongTimeout: 1000 });
  const seen = states(client);
  await peer.welcomes();
  await seen.until(({ status }) => status === "connected");
  await place.fakes.configure(peer.id, { deaf: true });
  const lost = rejects(client.topic("a").publish(1), "connection-lost");
  const waiting = await seen.until(({ status }) => status === "waiting");
  equal(waiting.status === "waiting" && waiting.reason.message, "a request was not answered");
  await lost;
  await place.fakes.configure(peer.id, { deaf: false });
  await peer.welcomes();
});

test("connection", "transports can be switched while it runs", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  await peer.welcomes();
  client.use(["polling"]);
  await peer.welcomes();
  equal(peer.transport, "polling");
  client.use(["websocket", "polling"]);
  await peer.welcomes();
  equal(peer.transport, "websocket");
});

test("connection", "a server that is not there is tried again, with both transports", async (place, after) => {
  const peer = await Peer.begin(place, after, { refuse: ["websocket", "polling"] });
  const client = peer.client(after);
  const seen = states(client);
  const transports = [];
  for (let count = 0; count < 2; count++) {
    for (let state = await seen.next(); state.status !== "waiting"; state = await seen.next()) {
      transports.push(state.status === "connecting" && state.transport);
    }
  }
  equal(transports, ["websocket", "polling", "websocket", "polling"]);
  await place.fakes.configure(peer.id, { refuse: [] });
  await peer.welcomes();
  equal((await seen.until(({ status }) => status === "connected")).status, "connected");
});

test("connection", "a page that is not let in is told why, and does not ask again", async (place, after) => {
  const said = '{"code":"origin-denied","message":"pages of `http://here` may not connect"}';
  const peer = await Peer.begin(place, after, { refuse: ["websocket"], denied: [403, said] });
  const seen = states(peer.client(after));
  const closed = await seen.until(({ status }) => status === "closed" || status === "waiting");
  equal(closed.status === "closed" && [closed.reason.code, closed.reason.message], [
    "origin-denied",
    "pages of `http://here` may not connect",
  ]);
  for (const denied of [[403, "<h1>Forbidden</h1>"], [403, "{}"], [503, said]]) {
    await place.fakes.configure(peer.id, { denied });
    const other = states(peer.client(after));
    equal((await other.until(({ status }) => status === "closed" || status === "waiting")).status, "waiting");
  }
});

test("connection", "a server that fell silent is found out by a ping", async (place, after) => {
  const [living, peer] = [await Peer.begin(place, after), await Peer.begin(place, after)];
  // The answer is to come in time on a busy machine too. It is looked for when that time is over, and the next ping follows.
  const content = states(living.client(after, { pongTimeout: 4000 }));
  await living.welcomes({ ping: 1000 });
  await living.hears("PING");
  await living.says(m.PONG, new Writer());
  const seen = states(peer.client(after, { pongTimeout: 60 }));
  await peer.welcomes({ ping: 1000 });
  await peer.hears("PING");
  const waiting = await seen.until(({ status }) => status === "waiting");
  equal(waiting.status === "waiting" && waiting.reason.message, "the server fell silent");
  await peer.welcomes();
  await living.hears("PING");
  equal(content.all.map(({ status }) => status), ["connecting", "connected"]);
});

test("connection", "a server that never says WELCOME is given up", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after, { connectTimeout: 50, transports: ["websocket"] });
  const seen = states(client);
  await peer.opened();
  const waiting = await seen.until(({ status }) => status === "waiting");
  equal(waiting.status === "waiting" && waiting.reason.message, "no connection in time");
});

test("connection", "the end that the server calls final is final", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after, { token: "old" });
  const seen = states(client);
  const published = client.topic("a").publish(1);
  const { ready } = client.topic("a").subscribe();
  await peer.opened();
  await peer.hears("HELLO");
  await peer.close(400, "login-failed", 0);
  const closed = await seen.until(({ status }) => status === "closed");
  equal(closed.status === "closed" && [closed.reason.code, closed.reason.number], ["login-failed", 400]);
  await rejects(published, "login-failed");
  await rejects(ready, "login-failed");
});

test("connection", "when the server advises it, it connects again", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = states(client);
  await peer.welcomes();
  await peer.close(102, "shutting-down", 1);
  const waiting = await seen.until(({ status }) => status === "waiting");
  equal(waiting.status === "waiting" && [waiting.reason.code, waiting.delay <= 1], ["shutting-down", true]);
  await peer.welcomes();
});

test("connection", "a login that the network made late is tried again, whatever the server advises", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = states(client);
  await peer.opened();
  await peer.hears("HELLO");
  await peer.close(202, "login-timeout", 0);
  const waiting = await seen.until(({ status }) => status === "waiting");
  equal(waiting.status === "waiting" && waiting.reason.code, "login-timeout");
  await peer.welcomes();
});

test("connection", "malformed bytes end the connection and nothing else", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = states(client);
  for (const bytes of ["45", "4505", "450101", "4203010500", "45038001", "4101"]) {
    await peer.welcomes();
    await peer.bytes(bytes);
    const waiting = await seen.until(({ status }) => status === "waiting");
    equal(waiting.status === "waiting" && waiting.reason.code, "bad-frame", bytes);
  }
  await peer.welcomes();
  await peer.bytes("7f0401020304");
  const published = client.topic("a").publish(1);
  await peer.hears("PUBLISH");
  await peer.ok(1);
  await published;
});

test("connection", "what is published waits for a connection, within bounds", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after, { sendMax: 1000 });
  const topic = client.topic("a");
  const waits = topic.publish("x".repeat(900));
  await rejects(topic.publish("y".repeat(200)), "too-much-waiting");
  await peer.welcomes();
  await peer.hears("PUBLISH");
  await peer.ok(1);
  await waits;
  const lost = rejects(topic.publish("z"), "connection-lost");
  await peer.hears("DECLARE");
  await peer.hears("PUBLISH");
  await peer.cut();
  await lost;
});

test("connection", "from the second time on a number stands for a path", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  await peer.welcomes({ declarations: 1 });
  const published = [1, 2, 3].map((value) => client.topic("a").publish(value));
  await peer.hears("PUBLISH");
  const declared = (await peer.hears("DECLARE")).input;
  equal([declared.varint(), declared.u8(), declared.string()], [1, 0, "a"]);
  for (let request = 2; request <= 3; request++) {
    const { input } = await peer.hears("PUBLISH");
    equal([input.varint(), input.u8(), input.varint()], [request, 1, 1]);
  }
  for (let count = 0; count < 2; count++) {
    published.push(client.topic("b").publish(count, { expires: 5, properties: { k: "v" } }));
    const { input } = await peer.hears("PUBLISH");
    input.varint();
    equal([input.u8(), input.varint(), input.u8(), input.string()], [1 | m.EXPIRES | m.PROPERTIES, 0, 0, "b"]);
    equal([input.varint(), input.string()], [5, "k:v\n"]);
  }
  await peer.ok(1, 4);
  await Promise.all(published);
});

test("connection", "a token is asked for before each connection, and renewed in between", async (place, after) => {
  const peer = await Peer.begin(place, after);
  let asked = 0;
  const client = peer.client(after, { token: () => `token-${++asked}` });
  ok((await peer.welcomes()).hex.includes("0207" + "746f6b656e2d31"), "the first token");
  await peer.cut();
  ok((await peer.welcomes()).hex.includes("746f6b656e2d32"), "the second");
  const name = client.login("fresh");
  const { input } = await peer.hears("LOGIN");
  equal([input.varint(), input.u8(), input.string()], [1, 2, "fresh"]);
  await peer.says(m.LOGGED_IN, new Writer().varint(1).string("bob"));
  equal(await name, "bob");
  const refused = rejects(client.login("bad"), "login-failed");
  await peer.hears("LOGIN");
  await peer.error(m.ERROR, new Writer().varint(2), 400, "login-failed");
  await refused;
  await peer.cut();
  ok((await peer.welcomes()).hex.includes("6672657368"), "the renewed one");
});

test("connection", "a pause keeps everything but the connection", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  client.topic("a").subscribe(seen.push);
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  client.pause();
  await peer.event("closed");
  const state = client.state;
  equal(state.status === "waiting" && state.reason.code, "paused");
  client.resume();
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.update(0, 1, "1");
  equal(await seen.next(), 1);
});

test("connection", "a page that is online again connects at once, one that is seen again asks", async (place, after) => {
  if (!globalThis.dispatchEvent || !globalThis.document) return;
  const peer = await Peer.begin(place, after);
  const client = peer.client(after, { reconnect: { base: 3_600_000, max: 3_600_000 } });
  const seen = states(client);
  await peer.welcomes({ jitter: 3_600_000 });
  await seen.until(({ status }) => status === "connected");
  document.dispatchEvent(new Event("visibilitychange"));
  await peer.hears("PING");
  await peer.says(m.PONG, new Writer());
  await peer.cut();
  await seen.until(({ status }) => status === "waiting");
  globalThis.dispatchEvent(new Event("online"));
  await peer.welcomes();
});
