// The logic of the example applications, which knows no page, in Node against a real server.
//
//   node examples/tests/logic.mjs PROGRAM      the program `tiderace`; the last line counts
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "../../clients/typescript/dist/tiderace.min.js";
import { join as enter, named } from "../chat/chat.js";
import { again, order, watch, worker } from "../jobs/jobs.js";
import { board, saved } from "../prices/board.js";
import { command, equal, examples, finish, ok, start, test, until } from "./harness.mjs";

const url = await start(process.argv[2]);
const client = () => connect(url, { reconnect: { base: 20, max: 100 } });

/** Somebody in a room of the chat, and what that page would show. */
async function person(room, name) {
  const own = client();
  const seen = { texts: [], people: [], missed: 0 };
  const entered = await enter(own, room, name, {
    said: ({ from, text }) => seen.texts.push(`${from}: ${text}`),
    people: (names) => (seen.people = names),
    missed: () => seen.missed++,
  });
  return { ...entered, seen, client: own };
}

await test("every README says the same command", () => {
  for (const name of ["chat", "prices", "jobs"]) equal(command(`${name}/README.md`), command("README.md"), name);
});
await test("the pages ask for nothing from elsewhere, and what they ask for is there", async () => {
  for (const name of ["", "chat/", "prices/", "jobs/"]) {
    const page = await (await fetch(`${url}/${name}`)).text();
    equal(page, readFileSync(join(examples, name, "index.html"), "utf8"), "the page");
    const files = [...page.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, target]) => target);
    const scripts = readdirSync(join(examples, name)).filter((file) => file.endsWith(".js"));
    for (const script of scripts) {
      const text = readFileSync(join(examples, name, script), "utf8");
      files.push(...[...text.matchAll(/from "([^"]*)"/g)].map(([, target]) => target));
    }
    for (const file of files) {
      ok(/^[./a-z]/.test(file) && !file.includes("://"), `${name}: ${file} is elsewhere`);
      const { status } = await fetch(new URL(file, `${url}/${name}`));
      equal(status, 200, file);
    }
  }
});

await test("chat: what is said reaches all who are there, and those who come later", async () => {
  const [ann, bob] = await Promise.all([person("lobby", "Ann"), person("lobby", "Bob / *")]);
  await ann.say("hello");
  await bob.say("<b>hi</b>");
  for (const { seen } of [ann, bob]) await until(() => seen.texts.length === 2, () => seen.texts);
  const carol = await person("lobby", "Carol");
  await until(() => carol.seen.texts.length === 2, () => carol.seen.texts);
  equal(carol.seen.texts, ["Ann: hello", "Bob / *: <b>hi</b>"], "what was kept");
  const elsewhere = await person("tea", "Dora");
  for (const { seen } of [ann, bob, carol]) {
    await until(() => seen.people.length === 3, () => seen.people);
    equal(seen.people, ["Ann", "Bob / *", "Carol"], "people");
  }
  equal([elsewhere.seen.texts, elsewhere.seen.missed, carol.seen.missed], [[], 0, 0], "another room");
  bob.client.close();
  await until(() => ann.seen.people.length === 2, () => ann.seen.people);
  await carol.leave();
  await until(() => ann.seen.people.length === 1, () => ann.seen.people);
  for (const one of [ann, carol, elsewhere]) one.client.close();
});
await test("chat: who was away gets what was said meanwhile, once", async () => {
  const [ann, bob] = await Promise.all([person("break", "Ann"), person("break", "Bob")]);
  await ann.say("one");
  await until(() => bob.seen.texts.length === 1, "one");
  bob.client.pause();
  await until(() => ann.seen.people.length === 1, "gone");
  for (const text of ["two", "three"]) await ann.say(text);
  bob.client.resume();
  await until(() => bob.seen.texts.length === 3, () => bob.seen.texts);
  equal(bob.seen.texts, ["Ann: one", "Ann: two", "Ann: three"], "texts");
  await until(() => ann.seen.people.length === 2, "back");
  equal(bob.seen.missed, 0, "gaps");
  for (const one of [ann, bob]) one.client.close();
});

await test("prices: a pattern's current values first, then changes, mostly as differences", async () => {
  for (const deltas of [true, false]) {
    const own = client();
    const first = new Map();
    const changed = (quotes) => quotes.forEach((quote) => first.set(quote.pair, quote));
    const shown = board(own, "demo/fx/EUR-*", { deltas, schedule: (draw) => setTimeout(draw, 16), changed });
    const part = () => saved({ bytesReceived: 0, deltaBytesSaved: 0 }, own.counts);
    await until(() => own.counts.updates > 150 && part() > (deltas ? 0.2 : -1), () => `${own.counts.updates} updates, ${part()} saved`);
    ok(first.size > 5 && [...first.values()].every(({ bid, ask }) => bid > 0 && bid < ask), "prices");
    equal(own.counts.deltas > 0, deltas, "deltas");
    await shown.stop();
    own.close();
  }
});

await test("chat: a room's name that cannot be read is none", () => {
  equal(["tea%20time", "100%", ""].map(named), ["tea time", undefined, ""], "names");
});
await test("prices: one that is gone is told, and so is what is no price", async () => {
  const own = client();
  const topic = own.topic("board/EUR-USD");
  const told = [];
  const shown = board(own, "board/*", { schedule: queueMicrotask, changed: ([quote]) => told.push(quote) });
  await shown.ready;
  const values = [{ bid: 1, ask: 2 }, null, { bid: 3, ask: 4 }, "text", { bid: 2, ask: 3 }];
  for (const [number, value] of values.entries()) {
    await topic.publish(value, { retain: true });
    await until(() => told.length === number + 1, () => told);
  }
  const pair = "EUR-USD";
  equal(told, [{ pair, bid: 1, ask: 2, move: 0 }, { pair }, { pair, bid: 3, ask: 4, move: 0 }, { pair }, { pair, bid: 2, ask: 3, move: 0 }], "told");
  // What was to be drawn when it was stopped is not drawn into the next.
  let draw;
  const stopped = board(own, "board/*", { schedule: (later) => (draw = later), changed: () => told.push("late") });
  await until(() => draw, "a price");
  await stopped.stop();
  draw();
  equal(told.length, 5, "told");
  own.close();
});

await test("jobs: each is done once, by whichever worker is free", async () => {
  const own = client();
  const workers = [client(), client()];
  const done = new Map();
  const dead = [];
  const watched = watch(own, { changed: (id, job) => job?.state === "done" && done.set(id, job), dead: (job) => dead.push(job) });
  const runs = [];
  for (const [number, client] of workers.entries()) {
    await worker(client, `worker ${number}`, async ({ id }) => void runs.push(id)).ready;
  }
  for (let number = 0; number < 20; number++) await order(own, { id: `job-${number}`, title: "a picture" });
  await until(() => done.size === 20, () => `${done.size} done`);
  equal([runs.length, new Set(runs).size, dead.length], [20, 20, 0], "runs");
  equal(new Set([...done.values()].map((job) => job.worker)).size, 2, "workers");
  for (const client of workers) client.close();
  await watched.stop();
  own.close();
});
await test("jobs: one that fails comes again, is a dead letter, and is tried again when somebody says so", async () => {
  const [own, other] = [client(), client()];
  const dead = [];
  let state;
  let mended = false;
  const watched = watch(own, { changed: (_, job) => job?.title === "broken" && (state = job), dead: (job) => dead.push(job) });
  worker(other, "worker", async (_, attempt) => {
    if (!mended) throw new Error(`attempt ${attempt}`);
  });
  await order(own, { id: "job-fails", title: "broken" });
  await until(() => dead.length === 1, () => JSON.stringify(state));
  equal([state.state, state.attempt, state.why], ["failed", 3, "attempt 3"], "the last attempt");
  mended = true;
  equal(await again(own), 1, "sent back");
  await until(() => state.state === "done", () => JSON.stringify(state));
  // Who browses comes back after a loss.
  own.pause();
  own.resume();
  mended = false;
  await order(own, { id: "job-fails-again", title: "broken" });
  await until(() => dead.length === 2, () => JSON.stringify(state));
  for (const client of [own, other]) client.close();
  await watched.stop().catch(() => {});
});
await test("jobs: a worker that is cut off in the middle leaves its job to another", async () => {
  const [own, cut, other] = [client(), client(), client()];
  const states = [];
  watch(own, { changed: (id, job) => id === "job-cut" && states.push(`${job.worker ?? "nobody"} ${job.state}`), dead: () => {} });
  worker(cut, "the first", () => new Promise(() => {}));
  await order(own, { id: "job-cut", title: "a picture" });
  await until(() => states.at(-1) === "the first working", () => states);
  worker(other, "the second", async () => {});
  cut.close();
  await until(() => states.at(-1) === "the second done", () => states);
  for (const client of [own, other]) client.close();
});
finish("logic");
