// Two real servers, of which one is lost: clients that know both addresses go on at the other one.
//
//   node tests/two-servers.mjs PROGRAM      the program `tiderace`; the last line counts
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect } from "../dist/tiderace.min.js";

const program = process.argv[2];
const WAIT = 60_000;
const CLIENTS = 200;
const MOVES = 300;
// Servers come back at the address that they had. Of 127.0.0.1 connections of other programs take free ports meanwhile, as
// their own ends; of this one they do not. Only Linux has all of 127.0.0.0/8 from the beginning.
const HOST = process.platform === "linux" ? "127.0.0.2" : "127.0.0.1";
const root = mkdtempSync(join(tmpdir(), "tiderace-two-"));
let servers = 0;
let [passed, failed] = [0, 0];

/** Runs a test; what it gives to `after` is done behind it. */
async function test(name, run) {
  const tasks = [];
  try {
    await run((task) => tasks.unshift(task));
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${name}: ${error.stack}`);
  }
  for (const task of tasks) await task();
}

function ok(is, what) {
  if (!is) throw new Error(what);
}

/** Starts a server with a store of its own, or of one before at the same address. */
async function start(after, before) {
  const store = before?.store ?? join(root, `${++servers}`);
  const listen = before ? new URL(before.url).host : `${HOST}:0`;
  const env = { ...process.env, TIDERACE_SERVER__LISTEN: listen, TIDERACE_STORE__DIRECTORY: store };
  const server = spawn(program, [], { stdio: ["ignore", "pipe", "pipe"], env });
  const log = [];
  const told = new Promise((resolve, reject) => {
    const hear = (line) => {
      log.push(line);
      const found = /^ +(127\.0\.0\.[12]:\d+) /.exec(line);
      if (found) resolve(`http://${found[1]}`);
    };
    createInterface({ input: server.stdout }).on("line", hear);
    createInterface({ input: server.stderr }).on("line", hear);
    server.on("exit", () => reject(new Error(`the server ended:\n${log.join("\n")}`)));
  });
  const end = async (signal) => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const exit = once(server, "exit");
    server.kill(signal);
    await exit;
  };
  after(() => end("SIGKILL"));
  return { url: await told, store, end };
}

/** Settles when that is so; it is looked at whenever a client tells something. */
function until(is, clients, what) {
  return new Promise((resolve, reject) => {
    const offs = [];
    const finish = (settle) => (clearTimeout(timer), offs.forEach((off) => off()), settle());
    const timer = setTimeout(() => finish(() => reject(new Error(what()))), WAIT);
    const look = () => is() && finish(resolve);
    for (const client of clients) offs.push(client.on("state", look));
    look();
  });
}

const at = (clients, { url }) => clients.filter(({ state }) => state.status === "connected" && state.address === `${url}/`).length;
const arrived = (clients, ...places) =>
  until(
    () => places.reduce((sum, place) => sum + at(clients, place), 0) === clients.length,
    clients,
    () => `${places.map((place) => at(clients, place))} of ${clients.length} have come`,
  );

/** A value at one server. */
async function publish({ url }, path, value) {
  const client = connect(url);
  await client.topic(path).publish(value, { retain: true });
  client.close();
}

for (const transports of [["websocket"], ["polling"]]) {
  await test(`${CLIENTS} clients spread over two servers, and go on at one, and at the other (${transports})`, async (after) => {
    const places = [await start(after), await start(after)];
    for (const place of places) await publish(place, "t", 0);
    const seen = new Map();
    const clients = Array.from({ length: CLIENTS }, () => {
      const client = connect(places.map(({ url }) => url), { transports, reconnect: { base: 100, max: 1000 } });
      after(() => client.close());
      const subscription = client.topic("t").subscribe((value) => {
        seen.get(client).values.push(value);
        for (const look of looks) look();
      });
      seen.set(client, { values: [], gaps: [] });
      subscription.on("gap", ({ reason }) => seen.get(client).gaps.push(reason));
      return client;
    });
    const looks = new Set();
    const all = (value) =>
      new Promise((resolve, reject) => {
        const missing = () => clients.filter((client) => seen.get(client).values.at(-1) !== value).length;
        const timer = setTimeout(() => reject(new Error(`${missing()} have not got ${value}`)), WAIT);
        const look = () => {
          if (missing()) return;
          clearTimeout(timer);
          looks.delete(look);
          resolve();
        };
        looks.add(look);
        look();
      });

    await arrived(clients, ...places);
    // A hundred each are expected, with a deviation of 7.
    const share = at(clients, places[0]);
    ok(Math.abs(share - CLIENTS / 2) <= 45, `${share} of ${CLIENTS} at one of two`);
    for (const place of places) await publish(place, "t", 1);
    await all(1);

    const moving = clients.filter(({ state }) => state.address === `${places[0].url}/`);
    await places[0].end("SIGKILL");
    await arrived(clients, places[1]);
    await publish(places[1], "t", 2);
    await all(2);
    for (const client of clients) {
      const wanted = moving.includes(client) ? "restarted" : "";
      ok(seen.get(client).gaps.join() === wanted, `gaps: ${seen.get(client).gaps}, not ${wanted}`);
    }

    // The one that comes back at its address is taken up again, once the other is stopped in order.
    places[0] = await start(after, places[0]);
    await places[1].end("SIGTERM");
    await arrived(clients, places[0]);
    await publish(places[0], "t", 3);
    await all(3);
    const versions = clients.map(({ counts }) => counts.connections);
    ok(versions.every((count) => count >= 2), "someone was never lost");
  });
}

for (const transports of [["websocket"], ["polling"]]) {
  await test(`what comes after a change of servers follows what came of the same server (${transports})`, async (after) => {
    const places = { a: await start(after), b: await start(after) };
    const paths = ["n/0", "n/1", "n/2"];
    let publishing = true;
    const publishers = Object.entries(places).map(async ([name, { url }]) => {
      const publisher = connect(url);
      for (let n = 0; publishing; n++) {
        await Promise.all(paths.map((path) => publisher.topic(path).publish(`${name} ${n}`, { retain: true })));
      }
      publisher.close();
    });
    const urls = Object.values(places).map(({ url }) => url);
    const client = connect(urls, { transports, reconnect: { base: 1, max: 1 } });
    after(() => client.close());
    const wrong = [];
    let moved = () => {};
    let moves = 0;
    // Cut after so many messages of a connection: with none of them, some, and many.
    let left = 0;
    const step = () => {
      if (left-- > 0 || client.state.status !== "connected") return;
      if (++moves === MOVES) moved();
      left = [0, 0, 1, 2, 3, 10, 100][moves % 7];
      queueMicrotask(() => client.cut());
    };
    client.on("state", ({ status }) => {
      if (status === "waiting") queueMicrotask(() => client.resume());
      if (status === "connected") step();
    });
    const watch = (path, topics) => {
      const last = Object.fromEntries(topics.map((topic) => [topic, { a: -1, b: -1, from: "", open: true }]));
      const subscription = client.topic(path).subscribe((value, { topic }) => {
        const [name, count] = [value[0], Number(value.slice(2))];
        const known = last[topic];
        const follows = count === known[name] + 1 || (count === known[name] && known.from !== name);
        if (!known.open && !follows) wrong.push(`${topic}: ${value} after ${JSON.stringify(known)} in connection ${client.counts.connections}`);
        if (known.open && count < known[name]) wrong.push(`${topic}: ${value} again after ${JSON.stringify(known)}`);
        Object.assign(known, { [name]: count, from: name, open: false });
        step();
      });
      subscription.on("gap", ({ topic }) => {
        for (const name of topic ? [topic] : topics) last[name].open = true;
      });
      return last;
    };
    const all = [...paths.slice(0, 2).map((path) => watch(path, [path])), watch("n/*", paths)];
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${moves} moves; ${JSON.stringify(all)}`)), WAIT);
      moved = () => (clearTimeout(timer), resolve());
    });
    publishing = false;
    await Promise.all(publishers);
    ok(wrong.length === 0, `${wrong.length} values: ${wrong.slice(0, 5).join("; ")}`);
    for (const last of all) for (const { a, b } of Object.values(last)) ok(a > 0 && b > 0, `it was at one only: ${JSON.stringify(all)}`);
  });
}

await test("a server that comes back in its place is found again beside an address where nobody is", async (after) => {
  const place = await start(after);
  const none = await start(after);
  await none.end("SIGKILL");
  const topics = await import("../dist/topics.min.js");
  const maker = connect(place.url);
  await topics.topicsOf(maker).at("kept").create({ persistent: true, retain: true, history: 100 });
  for (let value = 0; value < 5; value++) await maker.topic("kept").publish(value);
  const client = connect([none.url, place.url], { reconnect: { base: 100, max: 200 } });
  after(() => client.close());
  const values = [];
  const gaps = [];
  const looks = [];
  const subscription = client.topic("kept").subscribe((value) => {
    values.push(value);
    for (const look of looks) look();
  });
  subscription.on("gap", (gap) => gaps.push(gap));
  await subscription.ready;
  await place.end("SIGTERM");
  maker.close();
  await until(() => client.state.status === "waiting", [client], () => client.state.status);
  const again = await start(after, place);
  const publisher = connect(again.url);
  after(() => publisher.close());
  for (let value = 5; value < 10; value++) await publisher.topic("kept").publish(value);
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`only ${values}`)), WAIT);
    const look = () => values.at(-1) === 9 && (clearTimeout(timer), resolve());
    looks.push(look);
    look();
  });
  ok(values[0] === 4 && values.every((value, at) => at === 0 || value > values[at - 1]), `in order, none twice: ${values}`);
  // Unless all that was missed has come, that is told.
  ok(values.length === 6 ? gaps.length === 0 : gaps.map(({ reason }) => reason).join() === "restarted", JSON.stringify([values, gaps]));
});

rmSync(root, { recursive: true });
console.log(`two: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
