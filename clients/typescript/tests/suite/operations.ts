/** Operations, replays and notices against a server that says exactly what it is told to. */
import { type Reader, utf8, Writer } from "../../src/bytes.js";
import { queuesOf } from "../../src/administer.js";
import { type Entry, type Event, topicsOf } from "../../src/manage.js";
import * as m from "../../src/messages.js";
import { equal, hex, ok, rejects, Seen, test } from "../harness.js";
import { entry, Peer, type Said, subscribed } from "../peer.js";

/** An OPERATE: its request, what is to be done, the bytes beside that. */
function operated({ input }: Said): [number, Record<string, unknown>, string] {
  const request = input.varint();
  const hasBody = input.u8();
  const operation = JSON.parse(input.string());
  return [request, operation, hasBody ? hex(input.rest()) : ""];
}

const result = (request: number, outturn: object): Writer => new Writer().varint(request).string(JSON.stringify(outturn));

/** Names, codecs and so on apart, what a vector's message holds. */
const vector = (place: { vectors: { messages: { name: string; hex: string }[] } }, name: string): string =>
  place.vectors.messages.find((known) => known.name === name)!.hex;

test("topics", "operations are said and answered as the vectors have it", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  await peer.welcomes();
  // The requests before that of the vector.
  for (let request = 1; request < 9; request++) {
    const done = client.operate({ do: "session" });
    equal(operated(await peer.hears("OPERATE")).slice(0, 2), [request, { do: "session" }]);
    await peer.says(m.RESULT, result(request, {}));
    await done;
  }
  const update = client.operate({ do: "update", path: "fx/EUR-USD", merge: { bid: 1.09 }, if: { version: 7 } });
  equal((await peer.hears("OPERATE")).hex, vector(place, "operate by text alone"));
  await peer.bytes(vector(place, "an operation result"));
  equal(await update, { version: 8 });
  const page = client.operate<{ topics: unknown[] }>({ do: "fetch", selector: "*", values: true });
  await peer.hears("OPERATE");
  await peer.bytes(vector(place, "an operation result with values"));
  equal((await page).topics, [
    { path: "a", version: 3, bytes: 2, value: {} },
    { path: "b" },
    { path: "c", version: 1, bytes: 1, value: "x", properties: { k: "v" } },
  ]);
});

test("topics", "each way to write asks for what it means", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const topics = topicsOf(peer.client(after));
  await peer.welcomes();
  const topic = topics.at<unknown>("a/b");
  const rows: [() => Promise<unknown>, object, string, object, unknown][] = [
    [() => topic.create({ type: "json" }, { n: 1 }), { do: "create", spec: { type: "json" }, path: "a/b", value: { n: 1 } }, "", { existed: true }, true],
    [() => topic.set(2, { if: { absent: true } }), { do: "update", if: { absent: true }, path: "a/b", value: 2 }, "", { version: 5 }, 5],
    [() => topic.set(null), { do: "update", path: "a/b", value: null }, "", { version: 6 }, 6],
    [() => topic.set(Uint8Array.of(255), { spec: { type: "binary" } }), { do: "update", spec: { type: "binary" }, path: "a/b", type: "application/octet-stream" }, "ff", { version: 7 }, 7],
    [() => topic.set("x", { type: "text/plain", properties: { k: "v" } }), { do: "update", path: "a/b", text: "x", type: "text/plain", properties: { k: "v" } }, "", { version: 8 }, 8],
    [() => topic.patch([{ op: "remove", path: "/n" }], { if: { at: "/n", ge: 3 } }), { do: "update", patch: [{ op: "remove", path: "/n" }], if: { at: "/n", ge: 3 }, path: "a/b" }, "", { version: 9 }, 9],
    [() => topic.merge({ n: null }), { do: "update", merge: { n: null }, path: "a/b" }, "", { version: 10 }, 10],
    [() => topic.amend(3, "y"), { do: "amend", version: 3, path: "a/b", value: "y" }, "", { version: 11 }, 11],
    [() => topic.remove(), { do: "remove", selector: "a/b" }, "", { topics: 0 }, false],
    [() => topics.remove(["a", "b/**"]), { do: "remove", selector: ["a", "b/**"] }, "", { topics: 4 }, 4],
    [() => topics.views.put("v", "…"), { do: "view", name: "v", text: "…" }, "", {}, undefined],
    [() => topics.views.remove("v"), { do: "unview", name: "v" }, "", {}, undefined],
    [() => topics.views.list(), { do: "views" }, "", { views: [{ name: "v", text: "…" }] }, [{ name: "v", text: "…" }]],
    [() => topics.session(), { do: "session" }, "", { dropped: 1 }, { dropped: 1 }],
    [() => topics.forgetWill(), { do: "will" }, "", {}, undefined],
  ];
  for (const [ask, wanted, bytes, outturn, found] of rows) {
    const done = ask();
    const [request, operation, body] = operated(await peer.hears("OPERATE"));
    equal([operation, body], [wanted, bytes]);
    await peer.says(m.RESULT, result(request, outturn));
    equal(await done, found);
  }
  const refused = topic.set(1, { if: { version: 3 } });
  const [request] = operated(await peer.hears("OPERATE"));
  await peer.error(m.ERROR, new Writer().varint(request), 515, "condition-failed");
  await rejects(refused, "condition-failed");
});

test("queues", "a durable subscription is made before it is consumed from, on each connection, and left without an end", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const durable = client.durable("desk/audit", ["fx/**", "gold"], { selector: "side = 'buy'" });
  const makes = { do: "create-subscription", name: "desk/audit", topics: ["fx/**", "gold"], selector: "side = 'buy'" };
  const consumer = durable.receive({ prefetch: 3 });
  for (let connection = 0; connection < 2; connection++) {
    await peer.welcomes();
    const [made, operation] = operated(await peer.hears("OPERATE"));
    equal(operation, makes);
    const { request, kind, path, flags } = subscribed(await peer.hears("SUBSCRIBE"));
    equal([kind, path, flags], [m.QUEUE_KIND, "dsub/desk/audit", m.EXPLICIT | m.WINDOW]);
    await peer.ok(request);
    await peer.says(m.RESULT, result(made, {}));
    await consumer.ready;
    if (!connection) await peer.cut();
  }
  const stopped = consumer.stop();
  await peer.ok((await peer.hears("UNSUBSCRIBE")).input.varint());
  await stopped;
  const made = durable.create();
  const [create, operation] = operated(await peer.hears("OPERATE"));
  equal(operation, makes);
  await peer.says(m.RESULT, result(create, {}));
  await made;
  const deleted = durable.delete();
  const [request, ended] = operated(await peer.hears("OPERATE"));
  equal(ended, { do: "delete-subscription", name: "desk/audit" });
  await peer.says(m.RESULT, result(request, {}));
  await deleted;
  await rejects(client.durable("desk/audit").create(), "bad-operation");
});

test("queues", "a durable subscription that may not be made is not consumed from", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const told = new Seen<string>();
  client.on("error", (error) => told.push(error.code));
  const refused = client.durable("a", "secret/**").receive();
  await peer.welcomes();
  const [made] = operated(await peer.hears("OPERATE"));
  const { request, id } = subscribed(await peer.hears("SUBSCRIBE"));
  await peer.error(m.ERROR, new Writer().varint(made), 201, "not-authorised");
  await rejects(refused.ready, "not-authorised");
  equal(await told.next(), "not-authorised");
  const { input } = await peer.hears("UNSUBSCRIBE");
  const end = input.varint();
  equal(input.varint(), id);
  // The id is used again when the server has let go of it.
  const other = client.queue("b").receive();
  ok(subscribed(await peer.hears("SUBSCRIBE")).id !== id, "it is another id");
  await peer.ok(request);
  await peer.ok(end);
  void other.stop();
});

test("queues", "each operation on queues asks for what it means", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const queues = queuesOf(peer.client(after));
  await peer.welcomes();
  const all = async <T>(from: AsyncIterable<T>): Promise<T[]> => {
    const found: T[] = [];
    for await (const one of from) found.push(one);
    return found;
  };
  const moved = { messages: 3, kept: 1, up_to: 70, refused: { code: "queue-full", reason: "…" } };
  const state = { path: "a", messages: 1, in_flight: 0, delayed: 0, groups: 0, bytes: 9, consumers: 0, full: false, paused: false };
  // What is asked for, by which requests, and what they are answered.
  const rows: [() => Promise<unknown>, [object, object][], unknown][] = [
    [() => queues.purge("a"), [[{ do: "purge", path: "a" }, { messages: 2 }]], 2],
    [() => queues.purge("a", { selector: "x = 'y'" }), [[{ do: "purge", path: "a", selector: "x = 'y'" }, { messages: 0 }]], 0],
    [() => queues.move("a", "b", { limit: 3 }), [[{ do: "move", from: "a", to: "b", limit: 3 }, moved]], moved],
    [() => queues.move("a", "b", { limit: 3, up_to: 70 }), [[{ do: "move", from: "a", to: "b", limit: 3, up_to: 70 }, moved]], moved],
    [() => queues.redrive("dlq/a", { to: "b" }), [[{ do: "redrive", path: "dlq/a", to: "b" }, moved]], moved],
    [() => queues.pause("a"), [[{ do: "pause", path: "a" }, {}]], undefined],
    [() => queues.resume("a"), [[{ do: "resume", path: "a" }, {}]], undefined],
    [
      () => all(queues.list("jobs/*", { page: 1 })),
      [
        [{ do: "queues", pattern: "jobs/*", limit: 1 }, { queues: [state], more: true, next: "0-1" }],
        [{ do: "queues", pattern: "jobs/*", after: "0-1", limit: 1 }, { queues: [], more: false }],
      ],
      [state],
    ],
    [
      () => queues.show("a"),
      [
        [{ do: "queue", path: "a" }, { ...state, options: {}, listed: [{ session: "0-1-0" }], more: true, next: 5 }],
        [{ do: "queue", path: "a", after: 5 }, { ...state, options: {}, listed: [{ session: "0-2-0" }], more: false }],
      ],
      { ...state, options: {}, listed: [{ session: "0-1-0" }, { session: "0-2-0" }] },
    ],
    [
      () => all(queues.peek("a", { selector: "x = 'y'", bodyBytes: 9 })),
      [
        [{ do: "peek", path: "a", body_bytes: 9, selector: "x = 'y'" }, { messages: [], more: true, next: 7 }],
        [{ do: "peek", path: "a", from: 7, body_bytes: 9, selector: "x = 'y'" }, { messages: [{ position: 8 }], more: false }],
      ],
      [{ position: 8 }],
    ],
  ];
  for (const [ask, requests, found] of rows) {
    const done = ask();
    for (const [wanted, outturn] of requests) {
      const [request, operation] = operated(await peer.hears("OPERATE"));
      equal(operation, wanted);
      await peer.says(m.RESULT, result(request, outturn));
    }
    equal(await done, found);
  }
  // Bodies come beside the text.
  const peeked = all(queues.peek("a"));
  const [request] = operated(await peer.hears("OPERATE"));
  const messages = [{ position: 1, bytes: 2 }, { position: 2, bytes: 1, cut: 50 }];
  const answer = result(request, { messages, more: false });
  await peer.says(m.RESULT, answer.u8(1).bytes(utf8("{}")).u8(2).bytes(utf8("x")));
  equal((await peeked).map(({ value }) => value), [{}, "x"]);
});

test("topics", "values are sent as differences from those set last", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const topic = topicsOf(peer.client(after)).at<unknown>("a/b");
  await peer.welcomes();
  const whole = (value: unknown) => ({ do: "update", path: "a/b", value });
  const change = (base: number) => ({ do: "update", path: "a/b", delta: { codec: 1, base } });
  const hears = async (wanted: object, bytes: string): Promise<number> => {
    const [request, operation, body] = operated(await peer.hears("OPERATE"));
    equal([operation, body], [wanted, bytes]);
    return request;
  };
  const taken = async (version: number, request: number) => peer.says(m.RESULT, result(request, { version }));
  const refused = (request: number) => peer.error(m.ERROR, new Writer().varint(request), 515, "condition-failed");
  const long = (n: number) => ({ name: "a value", n });
  // The second waits for the first; what has changed of it is one byte, nine before the end.
  const done = [topic.set(long(1), { delta: true }), topic.set(long(2), { delta: true })];
  await taken(7, await hears(whole(long(1)), ""));
  await taken(8, await hears(change(7), "1601" + "05" + "32"));
  equal(await Promise.all(done), [7, 8]);
  // Somebody else was here.
  const late = topic.set(long(3), { delta: true });
  await refused(await hears(change(8), "1601" + "05" + "33"));
  await taken(12, await hears(whole(long(3)), ""));
  equal(await late, 12);
  // What saves nothing, or is of another type, is sent whole.
  const other = topic.set("x", { delta: true });
  await taken(13, await hears(whole("x"), ""));
  const text = topic.set("x", { delta: true, type: "text/plain" });
  await taken(14, await hears({ do: "update", path: "a/b", text: "x", type: "text/plain" }, ""));
  equal(await Promise.all([other, text]), [13, 14]);
  // A condition that does not hold is refused, and the next one goes on from the last that was set.
  const wrong = topic.set(Uint8Array.of(1, 2, 3, 4, 5, 6), { delta: true, if: { version: 1 } });
  await refused(await hears({ do: "update", if: { version: 1 }, path: "a/b", type: "application/octet-stream" }, "010203040506"));
  await rejects(wrong, "condition-failed");
  const again = topic.set("x", { delta: true, type: "text/plain" });
  await taken(15, await hears({ do: "update", path: "a/b", text: "x", type: "text/plain" }, ""));
  equal(await again, 15);
});

test("topics", "lists and histories come page by page", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const topics = topicsOf(peer.client(after));
  await peer.welcomes();
  const found: Entry[] = [];
  const listing = (async () => {
    for await (const entry of topics.fetch("a/**", { values: true, page: 2 })) found.push(entry);
  })();
  equal(operated(await peer.hears("OPERATE")), [1, { do: "fetch", selector: "a/**", limit: 2, values: true }, ""]);
  const page = { topics: [{ path: "a/1", version: 1, bytes: 1 }, { path: "a/2" }], more: true, next: "a/2" };
  await peer.says(m.RESULT, result(1, page).u8(1).string("7"));
  equal(operated(await peer.hears("OPERATE"))[1], { do: "fetch", selector: "a/**", limit: 2, after: "a/2", values: true });
  await peer.says(m.RESULT, result(2, { topics: [{ path: "a/3" }], more: false }));
  await listing;
  equal(found.map(({ path, value }) => [path, value]), [["a/1", 7], ["a/2", undefined], ["a/3", undefined]]);

  const events: Event[] = [];
  const reading = (async () => {
    for await (const event of topics.at("a").history({ last: 2, page: 1 })) events.push(event);
  })();
  equal(operated(await peer.hears("OPERATE"))[1], { do: "history", path: "a", limit: 1, last: 2 });
  await peer.says(m.RESULT, result(3, { events: [{ version: 8, time: 1, bytes: 1 }], more: true }).u8(1).string("1"));
  equal(operated(await peer.hears("OPERATE"))[1], { do: "history", path: "a", limit: 1, version: 9 });
  // One that was published meanwhile is not one of the last two.
  const late = { events: [{ version: 9, time: 2, bytes: 1 }, { version: 10, time: 3, bytes: 1 }], more: true };
  await peer.says(m.RESULT, result(4, late).u8(1).string("2").u8(1).string("3"));
  await reading;
  equal(events.map(({ version, value }) => [version, value]), [[8, 1], [9, 2]]);
  const since = topics.at("a").history({ since: new Date(5000) }).next();
  equal(operated(await peer.hears("OPERATE"))[1], { do: "history", path: "a", since: 5000 });
  await peer.says(m.RESULT, result(5, { events: [], more: false }));
  equal((await since).done, true);
  const none = topics.at("a").get();
  equal(operated(await peer.hears("OPERATE"))[1], { do: "fetch", selector: "a", values: true, specs: true });
  await peer.says(m.RESULT, result(6, { topics: [], more: false }));
  equal(await none, undefined);
});

test("topics", "no more is read at a time than the server answers", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const topics = topicsOf(peer.client(after));
  await peer.welcomes();
  const all = Array.from({ length: 20 }, (_, at) => topics.at(`a/${at}`).get());
  const heard: number[] = [];
  while (heard.length < 16) heard.push(operated(await peer.hears("OPERATE"))[0]);
  for (let at = 0; at < 20; at++) {
    await peer.says(m.RESULT, result(heard[at]!, { topics: [{ path: `a/${at}` }], more: false }));
    if (heard.length < 20) heard.push(operated(await peer.hears("OPERATE"))[0]);
  }
  equal((await Promise.all(all)).map((found) => found?.path), all.map((_, at) => `a/${at}`));
});

test("topics", "locks and claims are lost with the connection, a will is told anew", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const topics = topicsOf(client);
  ok(topics === topicsOf(client), "one for each client");
  await peer.welcomes();
  const answer = async (wanted: object, outturn: object = {}) => {
    const [request, operation] = operated(await peer.hears("OPERATE"));
    equal(operation, wanted);
    await peer.says(m.RESULT, result(request, outturn));
  };
  const locking = topics.lock("l", { timeout: 500 });
  await answer({ do: "lock", name: "l", timeout: 500 }, { fence: 3 });
  const lock = await locking;
  equal([lock.fence, lock.signal.aborted], [3, false]);
  const released = lock.release();
  await answer({ do: "unlock", name: "l" });
  await released;
  ok(lock.signal.aborted, "it is given back");
  await lock.release();
  const claiming = topics.at("a").claim();
  await answer({ do: "claim", path: "a" });
  const claim = await claiming;
  const willing = topics.will("a", "gone", { retain: true });
  await answer({ do: "will", path: "a", retain: true, value: "gone" });
  await willing;
  const lost = new Promise((resolve) => claim.signal.addEventListener("abort", resolve));
  await peer.cut();
  await lost;
  await claim.release();
  await peer.welcomes();
  await answer({ do: "will", path: "a", retain: true, value: "gone" });
  client.close();
  await peer.hears("BYE");
});

test("topics", "a subscription begins with what is kept, and goes on from there after a loss", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<number>();
  const subscription = client.topic<number>("a").subscribe(seen.push, { replay: { last: 3 }, interval: 100 });
  subscription.on("gap", () => seen.push(-1));
  await peer.welcomes();
  const asked = await peer.hears("SUBSCRIBE");
  equal(subscribed(asked).flags & ~(m.SNAPSHOT | m.RECOVERABLE | m.DELTAS), m.REPLAY | m.INTERVAL);
  equal([asked.input.u8(), asked.input.varint(), asked.input.varint()], [0, 3, 100]);
  for (const version of [4, 5, 6]) await peer.update(0, version, `${version}`);
  await peer.ok(1);
  // Conflated, as was asked for.
  await peer.update(0, 9, "9");
  equal([await seen.next(), await seen.next(), await seen.next(), await seen.next()], [4, 5, 6, 9]);
  await peer.cut();
  await peer.welcomes();
  const again = await peer.hears("SUBSCRIBE");
  equal(subscribed(again).flags & (m.RESUME | m.REPLAY | m.INTERVAL), m.RESUME | m.INTERVAL);
  equal([again.input.varint(), again.input.varint(), again.input.empty], [0, 100, true]);
  const kinds: [object, number[]][] = [
    [{ version: 70 }, [1, 70]],
    [{ since: 1_760_000_000_000 }, [2, 1_760_000_000_000]],
    [{ since: new Date(7) }, [2, 7]],
  ];
  for (const [replay, wanted] of kinds) {
    client.topic("b").subscribe({ replay: replay as { version: number }, recoverable: false });
    const { input } = await told(peer);
    equal([input.u8(), input.varint()], wanted);
  }
});

async function told(peer: Peer): Promise<{ input: Reader }> {
  const said = await peer.hears("SUBSCRIBE");
  subscribed(said);
  return said;
}

test("topics", "which topics come and go is told", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("x/*").subscribe((value) => seen.push(value), { notices: true });
  subscription.on("joined", ({ topic, spec }) => seen.push([topic, spec]));
  subscription.on("left", ({ topic, reason }) => seen.push([topic, reason]));
  await peer.welcomes();
  equal(subscribed(await peer.hears("SUBSCRIBE")).flags & m.NOTICES, m.NOTICES);
  await peer.says(m.JOINED, new Writer().varint(0).string("x/a").string('{"type":"json"}'));
  await peer.says(m.TOPIC, new Writer().varint(0).varint(0).string("x/a"));
  await peer.says(m.UPDATES, entry(0, 1, "1", 1 | m.ANNOUNCED));
  await peer.says(m.LEFT, new Writer().varint(0).string("x/a").string("removed"));
  for (const wanted of [["x/a", { type: "json" }], 1, ["x/a", "removed"]]) equal(await seen.next(), wanted);
});
