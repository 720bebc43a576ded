/** Topics that hold values, at a real server: by WebSocket and by long polling. */
import type { Update } from "../../src/index.js";
import { queuesOf } from "../../src/administer.js";
import { type Entry, topicsOf } from "../../src/manage.js";
import { manage } from "../../src/management.js";
import { equal, ok, rejects, Seen } from "../harness.js";
import { both, fresh } from "./real.js";

async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of from) found.push(one);
  return found;
}

both("a topic is created, changed under conditions, read and removed", async (begin) => {
  const client = begin();
  const topic = topicsOf(client).at<{ n: number; m?: number }>(fresh("value"));
  equal(await topic.get(), undefined);
  equal(await topic.create({ type: "json" }, { n: 1 }), false);
  equal(await topic.create({ type: "json" }), true);
  await rejects(topic.create({ type: "binary" }), "topic-exists");
  const first = await topic.get();
  equal([first?.value, first?.spec?.type], [{ n: 1 }, "json"]);
  const version = await topic.set({ n: 2, m: 0 }, { if: { version: first!.version! } });
  ok(version > first!.version!, "versions rise");
  await rejects(topic.set({ n: 3 }, { if: { version: first!.version! } }), "condition-failed");
  await topic.patch([{ op: "replace", path: "/n", value: 4 }], { if: { at: "/n", lt: 3 } });
  await topic.merge({ m: null });
  equal((await topic.get())?.value, { n: 4 });
  await rejects(topic.set("no object" as never, { type: "text/plain" }), "bad-value");
  equal(await topic.remove(), true);
  equal(await topic.get(), undefined);
  equal(await topic.remove(), false);
});

both("values are sent as differences, though others change them too", async (begin) => {
  const [writer, other, reader] = [begin(), begin(), begin()];
  const path = fresh("differences");
  const [topic, theirs] = [topicsOf(writer).at<unknown>(path), topicsOf(other).at<unknown>(path)];
  const value = (n: number) => ({ text: "grün ".repeat(20), n, list: Array.from({ length: n % 5 }, (_, at) => at) });
  const seen = new Seen<unknown>();
  await reader.topic<unknown>(path).subscribe(seen.push).ready;
  const wanted: unknown[] = [];
  for (let n = 0; n < 20; n++) {
    wanted.push(value(n));
    await topic.set(value(n), { delta: true, spec: { type: "json", slow_consumer: "block" } });
    if (n % 7 !== 3) continue;
    wanted.push({ n: "theirs" });
    await theirs.set({ n: "theirs" });
  }
  for (const value of wanted) equal(await seen.next(), value);
  await topic.remove();
  await topic.set(value(30), { delta: true });
  equal((await topic.get())?.value, value(30));
});

both("topics are listed page by page, in order, with their values", async (begin) => {
  const client = begin();
  const topics = topicsOf(client);
  const folder = fresh("list");
  const paths = Array.from({ length: 30 }, (_, at) => `${folder}/${String(at).padStart(2, "0")}/x`);
  await Promise.all(paths.map((path, at) => topics.at(path).set(at, { spec: {} })));
  const bytes = Uint8Array.of(0, 255);
  await topics.at(`${folder}/99`).set(bytes, { spec: { type: "binary" }, properties: { k: "v:w" } });
  const found = await all<Entry>(topics.fetch(`${folder}/**`, { values: true, page: 7 }));
  equal(found.map(({ path }) => path), [...paths, `${folder}/99`]);
  equal(found.slice(0, 30).map(({ value }) => value), paths.map((_, at) => at));
  equal([found[30]?.value, found[30]?.properties?.["k"]], [bytes, "v:w"]);
  const short = await all(topics.fetch([`${folder}/0*/x`, `${folder}/99`]));
  equal(short.length, 11);
  equal(short[0]?.value, undefined);
  const gets = await Promise.all(paths.map((path) => topics.at(path).get()));
  equal(gets.map((entry) => entry?.value), paths.map((_, at) => at));
  equal(await topics.remove(`${folder}/**`), 31);
});

both("history is read and replayed before what is live", async (begin) => {
  const [publisher, subscriber] = [begin(), begin()];
  const topics = topicsOf(publisher);
  const path = fresh("history");
  const topic = topics.at<number>(path);
  await topic.create({ type: "json", history: 20 });
  for (let at = 1; at <= 10; at++) await topic.set(at);
  equal((await all(topic.history({ page: 3 }))).map(({ value }) => value), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  const last = await all(topic.history({ last: 4, page: 3 }));
  equal(last.map(({ value }) => value), [7, 8, 9, 10]);
  ok(last.every(({ time }, at) => time > 1e12 && time >= (last[at - 1]?.time ?? 0)), "times rise");
  equal((await all(topic.history({ version: last[1]!.version, to: last[2]!.version }))).map(({ value }) => value), [8, 9]);
  equal((await all(topic.history({ since: last[0]!.time }))).at(-1)?.value, 10);
  const seen = new Seen<number>();
  const subscription = subscriber.topic<number>(path).subscribe(seen.push, { replay: { last: 3 } });
  await subscription.ready;
  await topic.set(11);
  equal([await seen.next(), await seen.next(), await seen.next(), await seen.next()], [8, 9, 10, 11]);
  equal(subscriber.counts.gaps, 0);
  await topic.remove();
});

both("a time series keeps its events, and one can be corrected", async (begin) => {
  const topics = topicsOf(begin());
  const series = topics.at<number>(fresh("series"));
  await series.create({ type: "timeseries", history: 10 });
  const versions: number[] = [];
  for (const value of [1, 2, 3]) versions.push(await series.set(value));
  await series.amend(versions[1]!, 20);
  equal((await all(series.history())).map(({ value }) => value), [1, 20, 3]);
  equal((await all(series.history({ amended: true }))).length, 4);
  await series.remove();
});

both("queues are listed, shown, looked into, moved, paused and purged", async (begin) => {
  const client = begin();
  const queues = queuesOf(client);
  const [path, other] = [fresh("queue"), fresh("other")];
  for (let n = 0; n < 5; n++) await client.queue(path).send({ n }, { properties: { odd: String(n % 2) } });
  const [listed] = await all(queues.list(path));
  equal([listed?.messages, listed?.in_flight, listed?.paused], [5, 0, false]);
  const shown = await queues.show(path);
  equal([shown.options.dead_letter, shown.listed], [`dlq/${path}`, []]);
  const values = async (options = {}) => (await all(queues.peek<{ n: number }>(path, options))).map(({ value }) => value?.n);
  equal(await values({ page: 2 }), [0, 1, 2, 3, 4]);
  equal(await values({ selector: "odd = '1'" }), [1, 3]);
  equal((await queues.move(path, other, { selector: "odd = '1'" })).messages, 2);
  equal(await values(), [0, 2, 4]);
  await queues.pause(path);
  ok((await queues.show(path)).paused, "it is paused");
  await queues.resume(path);
  equal(await queues.purge(path), 3);
  equal(await queues.purge(other), 2);
  await rejects(queues.purge(fresh("none")), "queue-unknown");
});

both("what a server is asked by those who look after it", async (begin) => {
  const client = begin();
  const server = manage(client);
  const folder = fresh("managed");
  for (let n = 0; n < 5; n++) await client.queue(`${folder}/${n}`).send({ n });
  const listed = await all(server.queues({ pattern: `${folder}/*`, limit: 2 }));
  equal(listed.map(({ path, messages }) => [path, messages]).sort(), [0, 1, 2, 3, 4].map((n) => [`${folder}/${n}`, 1]));
  const [first] = await all(server.peek<{ value: { n: number } }>({ path: `${folder}/3` }));
  equal(first?.value, { n: 3 });
  for (const { path } of listed) equal((await server.purge({ path })).messages, 1);
  await rejects(server.purge({ path: `${folder}/none` }), "queue-unknown");
  await rejects(all(server.queue({ path: `${folder}/none` })), "queue-unknown");
});

both("a durable subscription gathers while nobody is there, until it is deleted", async (begin) => {
  const client = begin();
  const folder = fresh("durable");
  const durable = client.durable<number>(folder, `${folder}/**`, { selector: "side = 'buy'" });
  const seen = new Seen<[number, string | undefined]>();
  const take = (value: number, message: { topic: string | undefined }) => seen.push([value, message.topic]);
  const consumer = durable.receive(take);
  await consumer.ready;
  const buy = (n: number) => client.topic(`${folder}/a`).publish(n, { properties: { side: "buy" } });
  await buy(1);
  await client.topic(`${folder}/a`).publish(2);
  equal(await seen.next(), [1, `${folder}/a`]);
  await rejects(durable.delete(), "subscription-in-use");
  await consumer.stop();
  await buy(3);
  const [listed] = await all(queuesOf(client).list(`dsub/${folder}`));
  equal([listed?.topics, listed?.selector, listed?.messages], [`${folder}/**`, "side = 'buy'", 1]);
  // Another client that knows its name consumes from it.
  const again = begin().durable<number>(folder).receive(take);
  equal(await seen.next(), [3, `${folder}/a`]);
  await again.stop();
  await durable.delete();
  await rejects(durable.delete(), "queue-unknown");
});

both("messages are delayed and have groups", async (begin) => {
  const client = begin();
  const path = fresh("delayed");
  // For an hour, so that it waits however long a busy machine takes for what comes behind it.
  await client.queue(path).send("in an hour", { delay: 3_600_000, group: "g" });
  await client.queue(path).send("now");
  equal((await queuesOf(client).show(path)).delayed, 1);
  const values = client.queue(path).receive()[Symbol.asyncIterator]();
  equal((await values.next()).value, "now");
  const sent = Date.now();
  await client.queue(path).send("late", { delay: 300, group: "g" });
  equal((await values.next()).value, "late");
  // By the server's clock of the wall, which says milliseconds.
  const waited = Date.now() - sent;
  ok(waited >= 290, `it came after ${waited} ms`);
  await values.return?.();
  await rejects(client.queue(path).send(1, { delay: 1e15 }), "bad-schedule");
  await rejects(client.queue(path).send(1, { group: "" }), "bad-group");
  await rejects(client.queue(path).send(1, { priority: 10 }), "bad-priority");
  const other = fresh("urgent");
  await client.queue(other).send("urgent", { priority: 9 });
  const said = new Promise((resolve) => client.queue(other).receive((_, { properties }) => resolve(properties.priority)));
  equal(await said, "9");
});

both("locks and claims are held by one client and end with it", async (begin) => {
  const [ann, bob] = [begin(), begin()];
  const name = fresh("lock");
  const lock = await topicsOf(ann).lock(name);
  await rejects(topicsOf(bob).lock(name), "lock-held");
  await topicsOf(ann).at(name).set(1, { spec: {}, if: { locked: name } });
  await rejects(topicsOf(bob).at(name).set(2, { if: { locked: name } }), "lock-not-held");
  const waiting = topicsOf(bob).lock(name, { timeout: 15_000 });
  await lock.release();
  const second = await waiting;
  ok(second.fence > lock.fence, "fences rise");
  const path = fresh("claimed");
  const claim = await topicsOf(bob).at(path).claim();
  await rejects(topicsOf(ann).at(path).set(1, { spec: {} }), "topic-claimed");
  const lost = new Promise((resolve) => second.signal.addEventListener("abort", resolve));
  const again = topicsOf(ann).lock(name, { timeout: 15_000 });
  bob.close();
  await lost;
  ok(claim.signal.aborted, "it is lost with the connection");
  await (await again).release();
});

both("a will is published for a client that is lost, and not for one that leaves", async (begin, place, transport) => {
  const folder = fresh("will");
  const marked: typeof fetch = (target, init) => fetch(`${target}&client=${folder}`, init);
  const [watcher, lost, left] = [begin(), begin({ fetch: marked }), begin()];
  const seen = new Seen<[string, unknown]>();
  await watcher.topic(`${folder}/*`).subscribe((value, { topic }) => seen.push([topic, value])).ready;
  await topicsOf(left).will(`${folder}/left`, "gone");
  await topicsOf(lost).will(`${folder}/lost`, "gone", { retain: true });
  left.close();
  // A client that is cut off between two polls is found lost by its silence alone, after the ping's deadline.
  if (transport === "polling") await place.proxies.polled(place.real!.id, folder);
  lost.cut();
  equal(await seen.next(), [`${folder}/lost`, "gone"]);
  equal(seen.all.length, 1);
});

both("notices say which topics come and go", async (begin) => {
  const [publisher, watcher] = [begin(), begin()];
  const folder = fresh("notices");
  const topics = topicsOf(publisher);
  await topics.at(`${folder}/a`).create({ type: "json" }, 1);
  const seen = new Seen<unknown>();
  const subscription = watcher.topic(`${folder}/*`).subscribe({ notices: true });
  subscription.on("joined", ({ topic, spec }) => seen.push([topic, spec["type"]]));
  subscription.on("left", ({ topic, reason }) => seen.push([topic, reason]));
  await subscription.ready;
  equal(await seen.next(), [`${folder}/a`, "json"]);
  await topics.at(`${folder}/b`).create({ type: "string" });
  equal(await seen.next(), [`${folder}/b`, "string"]);
  await topics.remove(`${folder}/a`);
  equal(await seen.next(), [`${folder}/a`, "removed"]);
});

both("an interval lets the newest value through", async (begin) => {
  const [publisher, watcher] = [begin(), begin()];
  const path = fresh("interval");
  const topic = topicsOf(publisher).at<number>(path);
  await topic.create({ type: "json", conflation: "latest" }, 0);
  const seen = new Seen<Update<number>>();
  const subscription = watcher.topic<number>(path).subscribe((_, update) => seen.push(update), { interval: 300 });
  await subscription.ready;
  for (let at = 1; at <= 50; at++) await topic.set(at);
  await seen.until(({ value }) => value === 50);
  ok(seen.all.length < 40, `${seen.all.length} of 51 updates came`);
  equal(watcher.counts.gaps, 0);
});

both("views make topics of others, and how a session fares can be asked", async (begin) => {
  const client = begin();
  const topics = topicsOf(client);
  const folder = fresh("views");
  const name = folder.replaceAll("/", "-");
  const seen = new Seen<[string, unknown]>();
  await client.topic(`${folder}/out/**`).subscribe((value, { topic }) => seen.push([topic, value])).ready;
  await topics.views.put(name, `map ${folder}/in/** to ${folder}/out/<path(5)>`);
  await topics.at(`${folder}/in/a`).set({ n: 1 }, { spec: { type: "json" } });
  equal(await seen.next(), [`${folder}/out/a`, { n: 1 }]);
  await rejects(topics.at(`${folder}/out/a`).set(2), "topic-read-only");
  ok((await topics.views.list()).some((view) => view.name === name), "it is listed");
  await topics.views.remove(name);
  ok(!(await topics.views.list()).some((view) => view.name === name), "it is gone");
  await rejects(topics.views.put(name, "nonsense"), "bad-view");
  equal((await topics.session()).subscriptions, 1);
});
