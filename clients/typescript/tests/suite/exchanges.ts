/** Queues and services against a server that says exactly what it is told to. */
import { Reader, Writer } from "../../src/bytes.js";
import type { Conversation } from "../../src/index.js";
import * as m from "../../src/messages.js";
import { equal, rejects, Seen, test } from "../harness.js";
import { Peer, subscribed } from "../peer.js";

const queued = (id: number, home: number, first: number, ...bodies: string[]) => {
  const out = new Writer().u8(0).varint(id).varint(home).varint(first).varint(1);
  for (const body of bodies) out.u8(1).string(body);
  return out;
};

function settled(input: Reader): unknown {
  const fields = [input.varint(), input.varint(), input.varint(), input.u8()];
  const ranges = Array.from({ length: input.varint() }, () => [input.varint(), input.varint()]);
  return [...fields, ranges];
}

test("queues", "a handler's end accepts, its failure gives back", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const consumer = client.queue<number>("work").receive(
    async (value, message) => {
      equal([message.queue, message.redeliveries], ["work", 1]);
      if (value === 2) throw new Error("not now");
    },
    { prefetch: 5 },
  );
  await peer.welcomes();
  const said = await peer.hears("SUBSCRIBE");
  const { kind, flags, path } = subscribed(said);
  equal([kind, flags, path], [m.QUEUE_KIND, m.EXPLICIT | m.WINDOW, "work"]);
  equal([said.input.varint(), said.input.varint()], [5, 0]);
  await peer.ok(1);
  await consumer.ready;
  await peer.says(m.QUEUED, queued(0, 3, 100, "1", "2", "3", "4"));
  const rows = [settled((await peer.hears("SETTLE")).input), settled((await peer.hears("SETTLE")).input)];
  equal(rows.sort(), [
    [0, 0, 3, 0, [[100, 0], [102, 1]]],
    [0, 0, 3, 1, [[101, 0]]],
  ]);
  const stopped = consumer.stop();
  const request = (await peer.hears("UNSUBSCRIBE")).input.varint();
  await peer.ok(request);
  await stopped;
});

test("queues", "stopping waits for what handlers have begun, and takes no more", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const begun = new Seen<() => void>();
  const consumer = client.queue("work").receive(() => new Promise<void>((resolve) => begun.push(resolve)));
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.says(m.QUEUED, queued(0, 0, 1, "1"));
  const finish = await begun.next();
  const stopped = consumer.stop();
  await peer.says(m.QUEUED, queued(0, 0, 2, "2"));
  finish();
  equal(settled((await peer.hears("SETTLE")).input), [0, 0, 0, 0, [[1, 0]]]);
  await peer.ok((await peer.hears("UNSUBSCRIBE")).input.varint());
  await stopped;
  equal(begun.all.length, 1);
});

test("queues", "a loop accepts when it asks for the next, and gives back what it leaves", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const values: number[] = [];
  const loop = (async () => {
    for await (const value of client.queue<number>("work").receive()) {
      values.push(value);
      if (value === 2) break;
    }
  })();
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.says(m.QUEUED, queued(0, 0, 1, "1", "2", "3"));
  await loop;
  equal(values, [1, 2]);
  equal(settled((await peer.hears("SETTLE")).input), [0, 0, 0, 0, [[1, 0]]]);
});

test("queues", "an outcome that comes after a loss is not said to the next connection", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const taken = new Seen<() => void>();
  client.queue("work").receive((_, message) => new Promise<void>((resolve) => taken.push(() => (message.accept(), resolve()))));
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.says(m.QUEUED, queued(0, 0, 1, "1"));
  const finish = await taken.next();
  await peer.cut();
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  finish();
  await peer.says(m.QUEUED, queued(0, 0, 1, "1"));
  (await taken.next())();
  equal(settled((await peer.hears("SETTLE")).input), [0, 0, 0, 0, [[1, 0]]]);
  const sent = client.queue("work").send({ a: 1 });
  const { input } = await peer.hears("PUBLISH");
  equal([input.varint(), input.u8(), input.varint(), input.u8(), input.string()], [2, 1, 0, 1, "work"]);
  await peer.ok(2);
  await sent;
});

test("queues", "a browser is shown what is there, and its end", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const seen: number[] = [];
  const loop = (async () => {
    for await (const value of client.queue<number>("work").browse({ from: 7, prefetch: 5 })) seen.push(value);
  })();
  await peer.welcomes();
  const said = await peer.hears("SUBSCRIBE");
  const { kind, flags } = subscribed(said);
  equal([kind, flags], [m.QUEUE_KIND, m.EXPLICIT | m.WINDOW | m.BROWSE | m.START]);
  equal([said.input.varint(), said.input.varint(), said.input.varint()], [5, 0, 7]);
  await peer.ok(1);
  await peer.says(m.QUEUED, queued(0, 0, 1, "1", "2"));
  await peer.says(m.BROWSED, new Writer().varint(0));
  await loop;
  equal(seen, [1, 2]);
});

test("queues", "what the server ends says why, and its id is free", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const told = new Seen<string>();
  client.on("error", (error) => told.push(error.code));
  const taken = new Seen<() => void>();
  const values: number[] = [];
  const browser = client.queue<number>("work").browse({ follow: true });
  const loop = (async () => {
    for await (const value of browser) values.push(value);
  })();
  const consumer = client
    .queue<number>("other")
    .receive((_, message) => new Promise<void>((resolve) => taken.push(() => (message.accept(), resolve()))));
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.hears("SUBSCRIBE");
  await peer.ok(1, 1);
  await Promise.all([browser.ready, consumer.ready]);
  await peer.says(m.QUEUED, queued(0, 0, 1, "1"));
  equal(settled((await peer.hears("SETTLE")).input), [0, 0, 0, 0, [[1, 0]]]);
  await peer.says(m.QUEUED, queued(1, 0, 1, "2"));
  const accept = await taken.next();
  await peer.error(m.UNSUBSCRIBED, new Writer().varint(0), 531, "upstream-away");
  await rejects(loop, "upstream-away");
  equal([values, await told.next()], [[1], "upstream-away"]);
  // While the application's own end is on its way nothing is told of the server's, and the id waits for the answer.
  accept();
  equal(settled((await peer.hears("SETTLE")).input), [0, 1, 0, 0, [[1, 0]]]);
  const stopped = consumer.stop();
  const request = (await peer.hears("UNSUBSCRIBE")).input.varint();
  await peer.error(m.UNSUBSCRIBED, new Writer().varint(1), 531, "upstream-away");
  client.queue("first").receive(() => {});
  equal(subscribed(await peer.hears("SUBSCRIBE")).id, 0);
  client.queue("second").receive(() => {});
  equal(subscribed(await peer.hears("SUBSCRIBE")).id, 2);
  await peer.error(m.ERROR, new Writer().varint(request), 502, "unknown-subscription");
  await stopped;
  client.queue("third").receive(() => {});
  equal(subscribed(await peer.hears("SUBSCRIBE")).id, 1);
  equal(told.all.length, 1);
  // On the next connection there are those alone that were not ended.
  await peer.cut();
  await peer.welcomes();
  const again = [0, 1, 2].map(async () => subscribed(await peer.hears("SUBSCRIBE")).path);
  equal(await Promise.all(again), ["first", "third", "second"]);
});

test("queues", "a browser does not outlive its connection", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const browser = client.queue<number>("work").browse(() => {}, { follow: true });
  const lost = new Seen<string>();
  browser.on("error", (error) => lost.push(error.code));
  await peer.welcomes();
  const { flags } = subscribed(await peer.hears("SUBSCRIBE"));
  equal(flags, m.EXPLICIT | m.WINDOW | m.BROWSE | m.FOLLOW);
  await peer.ok(1);
  await browser.ready;
  await peer.cut();
  equal(await lost.next(), "connection-lost");
});

test("queues", "a message says when it is delivered, to which group it belongs and how urgent it is", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const at = new Date(1_767_225_600_000);
  const sent = client.queue("work").send(1, { delay: 500, deliverAt: at, group: "a:b", priority: 0, persistent: true, properties: { k: "v", delay: "9" } });
  await peer.welcomes();
  const { input } = await peer.hears("PUBLISH");
  const flags = 1 | m.PROPERTIES | m.PERSISTENT | m.QUEUE_FIELDS;
  equal([input.varint(), input.u8(), input.varint(), input.u8(), input.string()], [1, flags, 0, 1, "work"]);
  equal(new TextDecoder().decode(input.bytes()), "k:v\ndelay:500\ndeliver-at:1767225600000\nmessage_group:a\\cb\npriority:0\n");
  await peer.ok(1);
  await sent;
});

const exchange = (flags: number, number: number, body: string) =>
  new Writer().u8(flags | 1).varint(number).raw(new TextEncoder().encode(body));

test("services", "a call is answered", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const answer = client.call("sum", [1, 2], { timeout: 5000 });
  await peer.welcomes();
  const { input } = await peer.hears("CALL");
  equal([input.varint(), input.u8(), input.varint(), input.varint()], [1, 1 | m.LAST, 5000, 0]);
  equal([input.u8(), input.string(), new TextDecoder().decode(input.rest())], [2, "sum", "[1,2]"]);
  await peer.says(m.EXCHANGE, exchange(m.LAST, 1, "3"));
  equal(await answer, 3);
});

test("services", "a call that fails, is given up, or loses its connection, says so", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  await peer.welcomes();
  const refused = rejects(client.call("nobody"), "peer-gone");
  await peer.hears("CALL");
  await peer.error(m.ENDED, new Writer().u8(0).varint(1), 101, "peer-gone");
  await refused;
  const late = rejects(client.call("slow", 1, { timeout: 30 }), "timeout");
  await peer.hears("CALL");
  await late;
  equal((await peer.hears("CANCEL")).input.u8(), 0);
  const abort = new AbortController();
  const aborted = rejects(client.call("slow", 1, { signal: abort.signal }), "aborted");
  await peer.hears("CALL");
  abort.abort();
  await aborted;
  await peer.hears("CANCEL");
  const lost = rejects(client.call("slow", 1), "connection-lost");
  await peer.hears("CALL");
  await peer.cut();
  await lost;
});

test("services", "a service answers, or says what went wrong", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const service = client.serve<number, number>("double", (value) => {
    if (value > 9) throw new Error("too much");
    return value * 2;
  });
  await peer.welcomes();
  const said = await peer.hears("SUBSCRIBE");
  const { kind, flags, request } = subscribed(said);
  equal([kind, flags, said.input.varint()], [m.SERVICE_KIND, m.WINDOW, 100]);
  await peer.ok(request);
  await service.ready;
  const called = (number: number, body: string) =>
    new Writer().u8(1 | m.LAST | m.RESPONDER | m.FIRST).varint(number).varint(0).raw(new TextEncoder().encode(body));
  await peer.says(m.EXCHANGE, called(7, "4"));
  const { input } = await peer.hears("SEND");
  equal([input.varint(), input.u8(), new TextDecoder().decode(input.rest())], [7, 1 | m.LAST | m.RESPONDER, "8"]);
  await peer.says(m.EXCHANGE, called(8, "40"));
  const hung = (await peer.hears("CANCEL")).input;
  equal([hung.u8(), hung.varint(), hung.varint(), hung.string()], [1, 8, 708, "too much"]);
});

test("services", "a conversation goes both ways, in order, until both have said their last", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const begun = client.converse<string, string>("chat", "hello");
  await peer.welcomes();
  const { input } = await peer.hears("CALL");
  equal([input.varint(), input.u8()], [1, 1]);
  const conversation = await begun;
  await peer.says(m.EXCHANGE, exchange(0, 1, '"a"'));
  await peer.says(m.EXCHANGE, exchange(0, 1, '"b"'));
  await peer.says(m.EXCHANGE, exchange(m.LAST, 1, '"c"'));
  conversation.send("more");
  conversation.end("enough");
  equal((await peer.hears("SEND")).input.block.length, 8);
  const last = (await peer.hears("SEND")).input;
  equal([last.varint(), last.u8()], [1, 1 | m.LAST]);
  const heard: string[] = [];
  for await (const value of conversation) heard.push(value);
  equal(heard, ["a", "b", "c"]);
  equal(conversation.done, true);
});

test("services", "a service can converse, and hears when the other side is gone", async (place, after) => {
  const peer = await Peer.begin(place, after);
  const client = peer.client(after);
  const ended = new Seen<unknown>();
  client.serve("count", async (_, conversation: Conversation) => {
    conversation.send(1);
    conversation.send(2);
    try {
      for await (const value of conversation) conversation.send(value);
    } catch (error) {
      ended.push((error as { code: string }).code);
    }
  });
  await peer.welcomes();
  await peer.hears("SUBSCRIBE");
  await peer.ok(1);
  const first = new Writer().u8(1 | m.RESPONDER | m.FIRST).varint(4).varint(0).raw(new TextEncoder().encode("0"));
  await peer.says(m.EXCHANGE, first);
  await peer.hears("SEND");
  await peer.hears("SEND");
  await peer.says(m.EXCHANGE, exchange(m.RESPONDER, 4, "9"));
  const { input } = await peer.hears("SEND");
  equal([input.varint(), input.u8(), new TextDecoder().decode(input.rest())], [4, 1 | m.RESPONDER, "9"]);
  await peer.error(m.ENDED, new Writer().u8(1).varint(4), 101, "peer-gone");
  equal(await ended.next(), "peer-gone");
});
