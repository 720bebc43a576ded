/** Against a real server, through a proxy that can be cut: by WebSocket and by long polling. */
import { connect, type Client, type ConnectOptions, type Gap, type TransportName, type Update } from "../../src/index.js";
import { equal, ok, rejects, Seen, test, type Place } from "../harness.js";

/** Names that no other run has used. */
const run = Math.random().toString(36).slice(2, 8);
let count = 0;
export const fresh = (name: string) => `sdk/${run}/${++count}/${name}`;

/** One of each, so that everything is seen by both transports. */
export function both(
  name: string,
  body: (connect: (options?: ConnectOptions) => Client, place: Place, transport: TransportName) => Promise<void>,
): void {
  for (const transport of ["websocket", "polling"] as const) {
    test("real", `${name} (${transport})`, (place, after) => {
      const begin = (options: ConnectOptions = {}) => {
        const reconnect = { base: 20, max: 200 };
        const client = connect(place.real!.url, { transports: [transport], reconnect, ...options });
        after(() => client.close());
        return client;
      };
      return body(begin, place, transport);
    });
  }
}

both("the current value first, then what is published", async (begin) => {
  const [publisher, subscriber] = [begin(), begin()];
  const path = fresh("value");
  await publisher.topic(path).publish({ n: 1 }, { retain: true });
  equal(await subscriber.topic(path).value(), { n: 1 });
  equal(await subscriber.topic(fresh("none")).value(), undefined);
  const seen = new Seen<unknown>();
  const subscription = subscriber.topic(path).subscribe(seen.push);
  await subscription.ready;
  await publisher.topic(path).publish({ n: 2 }, { retain: true });
  equal([await seen.next(), await seen.next()], [{ n: 1 }, { n: 2 }]);
  await publisher.topic(path).remove();
  equal(await seen.next(), undefined);
  equal(await subscriber.topic(path).value(), undefined);
});

both("all kinds of values, with properties", async (begin) => {
  const [publisher, subscriber] = [begin(), begin()];
  const path = fresh("kinds");
  const seen = new Seen<Update>();
  await subscriber.topic(path).subscribe((_, update) => seen.push(update)).ready;
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  const values = [1, "ö", null, [true], { a: { b: [] } }, bytes];
  for (const value of values) await publisher.topic(path).publish(value, { properties: { "a:b": "c\nd" } });
  await publisher.topic(path).publish("plain", { type: "text/plain" });
  for (const value of [...values, "plain"]) {
    const update = await seen.next();
    equal(update.value, value);
    if (value !== "plain") equal(update.properties["a:b"], "c\nd");
  }
});

both("patterns, selectors, and many topics", async (begin) => {
  const [publisher, subscriber] = [begin(), begin()];
  const folder = fresh("many");
  const seen = new Seen<[string, unknown]>();
  const pattern = subscriber.topic(`${folder}/*`).subscribe((value, { topic }) => seen.push([topic, value]));
  const red = new Seen<unknown>();
  const selected = subscriber.topic(`${folder}/**`).subscribe(red.push, { selector: "colour = 'red'" });
  await Promise.all([pattern.ready, selected.ready]);
  const all = Array.from({ length: 200 }, (_, at) => at);
  const colour = (at: number) => ({ properties: { colour: at % 50 ? "blue" : "red" } });
  await Promise.all(all.map((at) => publisher.topic(`${folder}/${at}`).publish(at, colour(at))));
  const found = new Map<string, unknown>();
  while (found.size < all.length) found.set(...(await seen.next()));
  for (const at of all) equal(found.get(`${folder}/${at}`), at);
  equal((await Promise.all(["", "", "", ""].map(() => red.next()))).sort(), [0, 100, 150, 50]);
  equal(subscriber.counts.gaps, 0);
});

both("values that change little come as deltas", async (begin) => {
  const [publisher, subscriber] = [begin(), begin()];
  const path = fresh("deltas");
  const seen = new Seen<unknown>();
  await subscriber.topic(path).subscribe(seen.push).ready;
  const plain = new Seen<unknown>();
  await subscriber.topic(path).subscribe(plain.push, { deltas: false }).ready;
  const value = { text: "x".repeat(500), n: 0, more: "y".repeat(500) };
  for (let n = 1; n <= 50; n++) {
    value.n = n;
    await publisher.topic(path).publish(value);
    equal(await seen.next(), value);
    equal(await plain.next(), value);
  }
  ok(subscriber.counts.deltas >= 45, `${subscriber.counts.deltas} deltas`);
  ok(subscriber.counts.deltaBytesSaved > 40_000, `${subscriber.counts.deltaBytesSaved} bytes saved`);
});

both("what is published while the line is down comes afterwards", async (begin, place) => {
  const subscriber = begin();
  const seen = new Seen<number>();
  const gaps = new Seen<Gap>();
  const recovered = new Seen<{ complete: boolean }>();
  const path = fresh("resume");
  const subscription = subscriber.topic<number>(path).subscribe(seen.push);
  subscription.on("gap", gaps.push);
  subscription.on("recovered", recovered.push);
  await subscription.ready;
  const publisher = begin();
  let next = 0;
  let wanted = 0;
  const publish = async (many: number) => {
    for (let at = 0; at < many; at++) await publisher.topic(path).publish(next++);
  };
  for (let round = 0; round < 3; round++) {
    await publish(20);
    while (wanted < next) equal(await seen.next(), wanted++);
    subscriber.pause();
    await publish(20);
    subscriber.resume();
    await publish(5);
    while (wanted < next) equal(await seen.next(), wanted++);
    equal(await recovered.next(), { complete: true });
    await place.proxies.cut(place.real!.id);
    // A cut between two polls is mended by the browser itself: then no state tells of it.
    while (!(await publisher.topic(`${path}/other`).publish(0).then(() => true, () => false)));
  }
  equal(gaps.all, []);
  ok(recovered.all.every(({ complete }) => complete), "something was not recovered");
});

both("a line that was silent is noticed and replaced", async (begin, place) => {
  // By polling, each attempt may meet another connection that was kept and is silent now.
  const impatient = { pongTimeout: 300, connectTimeout: 500 };
  const subscriber = begin(impatient);
  const path = fresh("silence");
  const seen = new Seen<number>();
  await subscriber.topic<number>(path).subscribe(seen.push).ready;
  await place.proxies.silence(place.real!.id);
  const states = new Seen<string>();
  subscriber.on("state", ({ status }) => states.push(status));
  const publisher = begin(impatient);
  while (!(await publisher.topic(path).publish(1).then(() => true, () => false)));
  globalThis.dispatchEvent?.(new Event("pageshow"));
  // Without a page nothing tells that it is time to look.
  if (!globalThis.document) subscriber.cut();
  await states.until((status) => status === "connected");
  equal(await seen.next(), 1);
});

both("a queue's message goes to one consumer, and back when it is refused", async (begin) => {
  const [sender, worker] = [begin(), begin()];
  const path = fresh("queue");
  const seen = new Seen<[number, number]>();
  const consumer = worker.queue<number>(path).receive((value, { redeliveries }) => {
    seen.push([value, redeliveries]);
    if (value === 2 && redeliveries === 0) throw new Error("later");
  });
  await consumer.ready;
  for (const value of [1, 2, 3]) await sender.queue(path).send(value);
  const rows = [await seen.next(), await seen.next(), await seen.next(), await seen.next()];
  equal(rows.sort(), [[1, 0], [2, 0], [2, 1], [3, 0]]);
  await consumer.stop();
  await sender.queue(path).send(4);
  for await (const value of worker.queue<number>(path).receive()) {
    equal(value, 4);
    break;
  }
});

both("a browser sees a queue to its end, or as it goes on, and takes nothing", async (begin) => {
  const [sender, watcher] = [begin(), begin()];
  const path = fresh("browsed");
  for (let value = 0; value < 50; value++) await sender.queue(path).send(value, { properties: { odd: String(value % 2) } });
  for (const [selector, expected] of [
    [undefined, 50],
    ["odd = '1'", 25],
  ] as const) {
    const values: number[] = [];
    for await (const value of watcher.queue<number>(path).browse(selector ? { selector, prefetch: 3 } : {})) values.push(value);
    equal(values, Array.from({ length: expected }, (_, at) => (selector ? 2 * at + 1 : at)));
  }
  const seen = new Seen<number>();
  const browser = watcher.queue<number>(path).browse((value) => seen.push(value), { follow: true, from: 0 });
  await browser.ready;
  await sender.queue(path).send(50);
  equal(await seen.next(), 50);
  await browser.stop();
  const rest: number[] = [];
  for await (const value of sender.queue<number>(path).receive()) if (rest.push(value) === 51) break;
  equal(rest, Array.from({ length: 51 }, (_, at) => at));
});

both("messages that nobody has read are no redeliveries, however often consumers end", async (begin) => {
  const [sender, path] = [begin(), fresh("unread")];
  for (let value = 0; value < 60; value++) await sender.queue(path).send(value);
  for (let round = 0; round < 25; round++) {
    const worker = begin();
    const consumer = worker.queue<number>(path).receive({ prefetch: 100 });
    const values = consumer[Symbol.asyncIterator]();
    equal((await values.next()).value, round);
    // Asking for the next accepts the one before; the next one is given back by stopping.
    equal((await values.next()).value, round + 1);
    if (round % 2) await values.return?.();
    await worker.close();
  }
  const rest: [number, number][] = [];
  const done = new Seen<void>();
  const last = sender.queue<number>(path).receive((value, { redeliveries }) => {
    rest.push([value, redeliveries]);
    if (value === 59) done.push();
  }, { prefetch: 100 });
  await done.next();
  equal(rest.map(([value]) => value), Array.from({ length: 35 }, (_, at) => at + 25));
  equal(rest.slice(1).filter(([, redeliveries]) => redeliveries > 0), []);
  await last.stop();
});

both("a service answers, fails, and converses", async (begin) => {
  const [caller, server] = [begin(), begin()];
  const path = fresh("service");
  await rejects(caller.call(path, 1, { timeout: 5000 }), "no-responder");
  await server.serve<number, number>(path, async (value, conversation) => {
    if (value < 0) throw new Error("negative");
    for await (const more of conversation) conversation.send(more * 10);
    return value * 2;
  }).ready;
  equal(await caller.call(path, 21), 42);
  await caller.call(path, -1).then(
    () => ok(false, "no error"),
    (error: Error) => equal(error.message, "negative"),
  );
  equal(await Promise.all(Array.from({ length: 30 }, (_, at) => caller.call(path, at))), Array.from({ length: 30 }, (_, at) => at * 2));
  const conversation = await caller.converse<number, number>(path, 7);
  conversation.send(1);
  conversation.send(2);
  conversation.end();
  const heard: number[] = [];
  for await (const value of conversation) heard.push(value);
  equal(heard, [10, 20, 14]);
});

both("what is said before an end arrives before it, and an end is no value", async (begin) => {
  const [caller, server] = [begin(), begin()];
  const path = fresh("ends");
  await server.serve<number, number>(path, async (first, conversation) => {
    for (let n = 0; n < 5; n++) conversation.send(n);
    if (first < 0) throw new Error("enough");
    return undefined as unknown as number;
  }).ready;
  for (let round = 0; round < 10; round++) {
    const heard: number[] = [];
    const failing = await caller.converse<number, number>(path, -1);
    await (async () => {
      for await (const value of failing) heard.push(value);
    })().then(() => ok(false, "no error"), (error: Error) => equal(error.message, "enough"));
    equal(heard, [0, 1, 2, 3, 4]);
    const complete = await caller.converse<number, number>(path, 1);
    complete.end();
    for await (const value of complete) heard.push(value);
    equal(heard, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
  }
});

both("many messages at once arrive in order", async (begin) => {
  const [publisher, subscriber] = [begin(), begin()];
  const path = fresh("order");
  const values: number[] = [];
  const done = new Seen<void>();
  await subscriber.topic<number>(path).subscribe((value) => {
    values.push(value);
    if (values.length === 5000) done.push();
  }).ready;
  await Promise.all(Array.from({ length: 5000 }, (_, at) => publisher.topic(path).publish(at)));
  await done.next();
  ok(values.every((value, at) => value === at), "out of order");
  equal(subscriber.counts.gaps, 0);
});

both("large values", async (begin) => {
  const [publisher, subscriber] = [begin(), begin()];
  const path = fresh("large");
  const seen = new Seen<Uint8Array>();
  await subscriber.topic<Uint8Array>(path).subscribe(seen.push).ready;
  const value = Uint8Array.from({ length: 500_000 }, (_, at) => (at * 7) % 251);
  await publisher.topic(path).publish(value);
  const found = await seen.next();
  ok(found.length === value.length && found.every((byte, at) => byte === value[at]), "not the same");
});
