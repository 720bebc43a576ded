/** Topics against a server that says exactly what it is told to. */
import { Writer } from "../../src/bytes.js";
import type { Gap } from "../../src/index.js";
import * as m from "../../src/messages.js";
import { equal, hex, ok, rejects, Seen, test, unhex } from "../harness.js";
import { entry, Peer, subscribed } from "../peer.js";

test("topics", "what is said is what the vectors say", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const vector = (name: string) => place.vectors.messages.find((known) => known.name === name)!.hex;
  const client = peer.client(after, { login: "ann", password: "pw", name: "demo" });
  await peer.opened();
  equal((await peer.hears("HELLO")).hex, vector("hello with a password"));
  await peer.bytes(vector("welcome"));
  const values = new Seen<unknown>();
  const one = client.topic("fx/EUR-USD").subscribe(values.push);
  client.topic("news/**").subscribe(values.push, { recoverable: false, deltas: false });
  equal((await peer.hears("SUBSCRIBE")).hex, vector("subscribe to one topic"));
  equal((await peer.hears("SUBSCRIBE")).hex, vector("subscribe to a pattern"));
  await peer.bytes(vector("two answers"));
  await one.ready;
  for (const name of ["a value in full", "a delta", "a topic is announced", "an announced topic's update", "a position"]) {
    await peer.bytes(vector(name));
  }
  equal(await values.next(), { bid: 1.0845, ask: 1.0847 });
  equal(await values.next(), { bid: 1.0846, ask: 1.0848 });
  equal(await values.next(), "Hi");
  const published = client.topic("fx/EUR-USD").publish({ bid: 1.0846, ask: 1.0848 }, { retain: true });
  equal((await peer.hears("PUBLISH")).hex, vector("publish in full"));
  await peer.ok(3);
  await published;
  equal(client.counts.deltas, 1);
  equal(client.counts.gaps, 0);
});

test("topics", "versions are read from 16 bits, and a jump is a gap", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<[number, unknown]>();
  const gaps = new Seen<Gap>();
  const subscription = client.topic("a").subscribe((value, { version }) => seen.push([version, value]));
  subscription.on("gap", gaps.push);
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  const short = (low: number, value: string) =>
    peer.says(m.UPDATES, new Writer().u8(1).varint(0).u8(low & 255).u8(low >> 8).string(value));
  await peer.update(0, 65_534, "1");
  await short(65_535, "2");
  await short(0, "3");
  await short(1, "4");
  await short(4, "5");
  await short(4, "6");
  for (const version of [65_534, 65_535, 65_536, 65_537, 65_540, 131_076]) equal((await seen.next())[0], version);
  equal(gaps.all, [
    { reason: "skipped", topic: "a", missed: 2 },
    { reason: "skipped", topic: "a", missed: 65_535 },
  ]);
});

test("topics", "a pattern's topics are told apart, whatever becomes of their ids", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<[string, unknown]>();
  const subscription = client.topic("x/*").subscribe((value, { topic }) => seen.push([topic, value]));
  subscription.on("gap", (gap) => seen.push(["gap", gap]));
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  const announce = (id: number, path: string) => peer.says(m.TOPIC, new Writer().varint(id).varint(0).string(path));
  await announce(0, "x/a");
  await peer.update(0, 1, "1", 1 | m.ANNOUNCED);
  await announce(0, "x/b");
  await peer.update(0, 9, "2", 1 | m.ANNOUNCED);
  await announce(1, "x/a");
  await peer.update(1, 2, "3", 1 | m.ANNOUNCED);
  await peer.update(0, 10, "", m.ANNOUNCED | m.REMOVED);
  for (const wanted of [["x/a", 1], ["x/b", 2], ["x/a", 3], ["x/b", undefined]]) equal(await seen.next(), wanted);
});

test("topics", "after a loss it goes on where it was: nothing twice, nothing missing", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<number>();
  const subscription = client.topic<number>("a").subscribe(seen.push);
  const recovered = new Seen<{ complete: boolean }>();
  subscription.on("recovered", recovered.push);
  equal(hex((await peer.welcomes()).input.block.slice(-1)), "00", "no position at first");
  equal(subscribed(await peer.hears("SUBSCRIBE")).flags, m.SNAPSHOT | m.RECOVERABLE | m.DELTAS);
  await peer.ok(1);
  await peer.update(0, 10, "10");
  await peer.says(m.POSITION, new Writer().varint(2).varint(99));
  await peer.update(0, 11, "11");
  equal([await seen.next(), await seen.next()], [10, 11]);
  await peer.cut();
  const hello = await peer.welcomes();
  ok(hello.hex.endsWith(hex(new Writer().bytes(unhex("05010263")).done())), `position in ${hello.hex}`);
  const again = await peer.hears("SUBSCRIBE");
  const fields = subscribed(again);
  equal(fields.flags & m.RESUME, m.RESUME);
  equal(again.input.varint(), 0, "an empty position: that of HELLO");
  await peer.says(m.RECOVERED, new Writer().varint(fields.request).u8(1));
  await peer.update(0, 11, "11");
  await peer.update(0, 12, "12");
  await peer.ok(fields.request);
  equal(await seen.next(), 12);
  equal(await recovered.next(), { complete: true });
  equal(client.counts.duplicates, 1);
  equal(client.counts.gaps, 0);
});

test("topics", "what could not be recovered is told, and then the current value comes", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("a").subscribe(seen.push);
  subscription.on("gap", seen.push);
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.ok(1);
  await peer.update(0, 3, "3");
  equal(await seen.next(), 3);
  await peer.cut();
  await peer.welcomes();
  const { request } = subscribed(await peer.hears("SUBSCRIBE"));
  await peer.says(m.RECOVERED, new Writer().varint(request).u8(0));
  await peer.update(0, 3000, "4");
  equal(await seen.next(), { reason: "not-recovered" });
  equal(await seen.next(), 4);
  equal(seen.all.length, 3);
});

test("topics", "a value that was hidden and is shown again after a loss comes with its version", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  client.topic("a").subscribe(seen.push);
  const left = client.topic("b").subscribe(seen.push, { notices: true });
  left.on("left", ({ reason }) => seen.push(reason));
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.hears("SUBSCRIBE");
  await peer.ok(1);
  await peer.ok(2);
  await peer.update(0, 3, "3", 1 | m.VALUE);
  await peer.update(0, 3, "", m.REMOVED);
  await peer.update(1, 5, "5", 1 | m.VALUE);
  await peer.says(m.LEFT, new Writer().varint(1).string("b").string("not-authorised"));
  for (const expected of [3, undefined, 5, "not-authorised"]) equal(await seen.next(), expected);
  await peer.cut();
  await peer.welcomes();
  for (const id of [0, 1]) {
    const { request } = subscribed(await peer.hears("SUBSCRIBE"));
    await peer.says(m.RECOVERED, new Writer().varint(request).u8(1));
    await peer.update(id, id ? 5 : 3, id ? "5" : "3", 1 | m.VALUE);
    // And once more, which is known.
    await peer.update(id, id ? 6 : 4, id ? "6" : "4", 1 | m.VALUE);
  }
  for (const expected of [3, 4, 5, 6]) equal(await seen.next(), expected);
  equal(client.counts.duplicates, 0);
});

test("topics", "a jump that nobody explained is told after a loss as well", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("a").subscribe(seen.push, { recoverable: false });
  subscription.on("gap", seen.push);
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.ok(1);
  await peer.update(0, 3, "3");
  await seen.next();
  await peer.cut();
  await peer.welcomes();
  equal(subscribed(await peer.hears("SUBSCRIBE")).flags & m.RESUME, 0);
  await peer.update(0, 7, "7");
  equal(await seen.next(), { reason: "skipped", topic: "a", missed: 3 });
  equal(await seen.next(), 7);
});

test("topics", "a version that follows a lower one is no gap", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("x/*").subscribe((_, { topic, version }) => seen.push([topic, version]));
  subscription.on("gap", seen.push);
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  const announce = (id: number, path: string) => peer.says(m.TOPIC, new Writer().varint(id).varint(0).string(path));
  const follows = (id: number, version: number) =>
    peer.says(m.FOLLOWS, new Writer().u8(m.ANNOUNCED).varint(id).varint(version));
  await announce(0, "x/a");
  await announce(1, "x/b");
  for (const id of [0, 1]) await peer.update(id, 3, "1", 1 | m.ANNOUNCED);
  // The server was started anew, and it kept what came before; of the other topic two are missing.
  await follows(0, 3);
  await peer.update(0, 1_048_580, "2", 1 | m.ANNOUNCED);
  await follows(1, 5);
  await peer.update(1, 1_048_581, "2", 1 | m.ANNOUNCED);
  await peer.update(0, 1_048_581, "3", 1 | m.ANNOUNCED);
  for (const wanted of [
    ["x/a", 3],
    ["x/b", 3],
    ["x/a", 1_048_580],
    { reason: "skipped", topic: "x/b", missed: 2 },
    ["x/b", 1_048_581],
    ["x/a", 1_048_581],
  ])
    equal(await seen.next(), wanted);
});

test("topics", "another epoch is a gap unless the server knows the one before", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("a").subscribe(seen.push);
  const passing = client.topic("b").subscribe({ recoverable: false });
  subscription.on("gap", seen.push);
  passing.on("gap", (gap) => seen.push(["b", gap]));
  await peer.welcomes();
  for (const request of [1, 2]) {
    await peer.hears("SUBSCRIBE");
    await peer.ok(request);
  }
  await peer.update(0, 30, "3");
  await peer.says(m.POSITION, new Writer().varint(0).varint(77));
  equal(await seen.next(), 3);
  await peer.cut();
  await peer.welcomes({ epoch: 6 });
  const { request, flags } = subscribed(await peer.hears("SUBSCRIBE"));
  equal(flags & m.RESUME, m.RESUME);
  await peer.says(m.RECOVERED, new Writer().varint(request).u8(1).u8(1));
  await peer.says(m.FOLLOWS, new Writer().u8(0).varint(0).varint(30));
  await peer.update(0, 1_048_600, "4");
  equal(await seen.next(), ["b", { reason: "restarted" }]);
  equal(await seen.next(), 4);
  // Until the new life has told where it is, the old position is still the best there is.
  await peer.cut();
  ok((await peer.welcomes({ epoch: 6 })).hex.endsWith("040501004d"), "the old position");
  await peer.hears("SUBSCRIBE");
  await peer.says(m.POSITION, new Writer().varint(1).varint(9));
  await peer.update(0, 1_048_601, "5");
  equal(await seen.next(), 5);
  await peer.cut();
  ok((await peer.welcomes({ epoch: 7 })).hex.endsWith("0406010109"), "the new position alone");
  const again = subscribed(await peer.hears("SUBSCRIBE"));
  await peer.says(m.RECOVERED, new Writer().varint(again.request).u8(0));
  await peer.update(0, 1, "1");
  equal(await seen.next(), { reason: "restarted" });
  equal(await seen.next(), 1);
});

/** Reconnects to another life of the server, which does not know what was missed; the new SUBSCRIBE. */
async function lost(peer: Peer, continues: number): Promise<{ request: number; id: number; flags: number }> {
  await peer.cut();
  await peer.welcomes({ epoch: 6, features: 1 });
  const { request } = subscribed(await peer.hears("SUBSCRIBE"));
  await peer.says(m.RECOVERED, new Writer().varint(request).u8(0).u8(continues));
  await peer.hears("UNSUBSCRIBE");
  await peer.ok(request);
  return subscribed(await peer.hears("SUBSCRIBE"));
}

test("topics", "what new values do not confirm is removed", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const watch = client.topic("here/*").subscribe((value, { topic, removed }) => seen.push([topic, value, removed]));
  watch.on("gap", seen.push);
  await peer.welcomes({ features: 1 });
  const first = subscribed(await peer.hears("SUBSCRIBE"));
  equal(first.flags & (m.VALUES | m.OK_LAST), m.VALUES);
  await peer.ok(1);
  const announce = (subscription: number, paths: string[]) =>
    Promise.all(
      paths.map((path, id) => peer.says(m.TOPIC, new Writer().varint(id).varint(subscription).string(`here/${path}`))),
    );
  await announce(0, ["ann", "bob", "said", "eve"]);
  const value = m.ANNOUNCED | m.VALUE | 1;
  await peer.update(0, 1, "1", value);
  await peer.update(1, 1, "1", value);
  await peer.update(2, 1, "1", m.ANNOUNCED | 1);
  await peer.update(3, 1, "1", value);
  await peer.update(3, 2, "", m.ANNOUNCED | m.REMOVED);
  for (let count = 0; count < 5; count++) await seen.next();
  const { request, id, flags } = await lost(peer, 0);
  equal(flags & (m.RESUME | m.OK_LAST | m.SNAPSHOT), m.OK_LAST | m.SNAPSHOT);
  equal(await seen.next(), { reason: "restarted" });
  await announce(id, ["ann"]);
  await peer.update(0, 7, "2", value);
  equal(await seen.next(), ["here/ann", 2, false]);
  await peer.ok(request);
  equal(await seen.next(), ["here/bob", undefined, true]);
  // What was only said is not gone, and what was removed is not removed again.
  await peer.update(0, 8, "3", value);
  equal(await seen.next(), ["here/ann", 3, false]);
});

test("topics", "a replay after a restart brings what is new, and a value that was lost is taken back", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const watch = client.topic("a").subscribe((value, { version }) => seen.push([version, value]), { replay: { last: 9 } });
  watch.on("gap", seen.push);
  await peer.welcomes({ features: 1 });
  await peer.hears("SUBSCRIBE");
  await peer.ok(1);
  for (const version of [1, 2, 3]) await peer.update(0, version, `${version}`, m.VALUE | 1);
  for (const version of [1, 2, 3]) equal(await seen.next(), [version, version]);
  const { request, id, flags } = await lost(peer, 1);
  equal(flags & (m.RESUME | m.REPLAY), m.REPLAY);
  equal(await seen.next(), { reason: "restarted" });
  for (const version of [1, 2, 3, 1_048_577]) await peer.update(id, version, `${version}`, m.VALUE | 1);
  equal(await seen.next(), [1_048_577, 1_048_577]);
  await peer.ok(request);
  await peer.update(id, 1_048_579, "9", m.VALUE | 1);
  equal(await seen.next(), { reason: "skipped", topic: "a", missed: 1 });
  equal(await seen.next(), [1_048_579, 9]);
  // The server crashed before it had stored the last two.
  const third = await lost(peer, 1);
  equal(await seen.next(), { reason: "restarted" });
  for (const version of [3, 1_048_577]) await peer.update(third.id, version, `${version}`, m.VALUE | 1);
  await peer.ok(third.request);
  equal(await seen.next(), [1_048_577, 1_048_577]);
  equal(client.counts.duplicates, 5);
});

test("topics", "without recovery the values come anew on each connection", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  client.topic("a").subscribe((value, { removed }) => seen.push([value, removed]), { recoverable: false });
  await peer.welcomes({ features: 1 });
  await peer.hears("SUBSCRIBE");
  await peer.ok(1);
  await peer.update(0, 5, "5", m.VALUE | 1);
  equal(await seen.next(), [5, false]);
  await peer.cut();
  await peer.welcomes({ features: 1 });
  const { request, flags } = subscribed(await peer.hears("SUBSCRIBE"));
  equal(flags & (m.RESUME | m.OK_LAST), m.OK_LAST);
  await peer.ok(request);
  equal(await seen.next(), [undefined, true]);
});

test("topics", "a delta that does not fit renews the subscription without deltas", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("a").subscribe(seen.push);
  subscription.on("gap", seen.push);
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.update(0, 1, "1");
  await peer.says(m.UPDATES, entry(0, 2, unhex("0900"), 1 | m.DELTA));
  equal(await seen.next(), 1);
  equal(await seen.next(), { reason: "defect" });
  equal((await peer.hears("UNSUBSCRIBE")).input.block.length > 0, true);
  const { id, flags } = subscribed(await peer.hears("SUBSCRIBE"));
  equal([id, flags & m.DELTAS], [1, 0]);
  await peer.update(0, 3, "unheard");
  await peer.update(1, 3, "3");
  equal(await seen.next(), 3);
});

test("topics", "an id is used again when the server has let go of it", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const first = client.topic("a").subscribe(seen.push);
  await peer.welcomes();
  equal(subscribed(await peer.hears("SUBSCRIBE")).id, 0);
  const gone = first.unsubscribe();
  const request = (await peer.hears("UNSUBSCRIBE")).input.varint();
  client.topic("b").subscribe(seen.push);
  equal(subscribed(await peer.hears("SUBSCRIBE")).id, 1);
  await peer.update(0, 1, "late");
  await peer.ok(request);
  await gone;
  client.topic("c").subscribe(seen.push);
  equal(subscribed(await peer.hears("SUBSCRIBE")).id, 0);
  await peer.update(0, 5, "5");
  equal(await seen.next(), 5);
});

test("topics", "a refused subscription says why and leaves its id", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const errors = new Seen<unknown>();
  client.on("error", errors.push);
  const subscription = client.topic("secret").subscribe();
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.error(m.ERROR, new Writer().varint(1), 401, "not-authorised");
  await rejects(subscription.ready, "not-authorised");
  await errors.next();
  client.topic("b").subscribe();
  equal(subscribed(await peer.hears("SUBSCRIBE")).id, 0);
});

test("topics", "updates can be iterated, and the loop ends with the subscription", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const subscription = client.topic<number>("a").subscribe({ snapshot: false });
  const values: number[] = [];
  const loop = (async () => {
    for await (const { value } of subscription) {
      values.push(value);
      if (value === 2) void subscription.unsubscribe();
    }
  })();
  await peer.welcomes();
  equal(subscribed(await peer.hears("SUBSCRIBE")).flags & m.SNAPSHOT, 0);
  await peer.update(0, 1, "1");
  await peer.update(0, 2, "2");
  await loop;
  equal(values, [1, 2]);
});

test("topics", "a defect in one handler stops nothing else", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const { console } = globalThis;
  const known = { error: console.error, report: (globalThis as { reportError?: unknown }).reportError };
  const reported = new Seen<unknown>();
  console.error = reported.push;
  Object.assign(globalThis, { reportError: undefined });
  after(() => {
    console.error = known.error;
    Object.assign(globalThis, { reportError: known.report });
  });
  const seen = new Seen<unknown>();
  client.topic("a").subscribe(() => {
    throw new Error("mine");
  });
  client.topic("b").subscribe(seen.push);
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.update(0, 1, "1");
  await peer.update(1, 1, "2");
  equal(await seen.next(), 2);
  equal(((await reported.next()) as Error).message, "mine");
});

test("topics", "the current value is asked for, also when there is none", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const found = client.topic("a").value();
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.update(0, 1, '{"a":1}');
  await peer.ok(1);
  equal(await found, { a: 1 });
  const ended = (await peer.hears("UNSUBSCRIBE")).input.varint();
  await peer.ok(ended);
  const none = client.topic("b").value();
  await peer.hears("SUBSCRIBE");
  await peer.ok(3);
  await peer.hears("PING");
  await peer.says(m.PONG, new Writer());
  equal(await none, undefined);
});

test("topics", "credit is given back as bytes are taken, and not while they wait", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after, { window: 100 });
  let release = () => {};
  const slow = new Promise<void>((resolve) => (release = resolve));
  client.topic("a").subscribe((_, { version }) => (version === 2 ? slow : undefined));
  await peer.welcomes();
  equal((await peer.hears("CREDIT")).input.varint(), 100);
  await peer.hears("SUBSCRIBE");
  const body = JSON.stringify("x".repeat(60));
  await peer.update(0, 1, body);
  equal((await peer.hears("CREDIT")).input.varint(), 68);
  await peer.update(0, 2, body);
  await peer.says(m.PONG, new Writer());
  const published = client.topic("b").publish(1);
  await peer.hears("PUBLISH");
  await peer.ok(2);
  await published;
  release();
  equal((await peer.hears("CREDIT")).input.varint(), 68);
});
