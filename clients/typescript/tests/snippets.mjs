// Runs the JavaScript that the READMEs print, as it is printed, against a real server.
//
//   TIDERACE_URL=http://127.0.0.1:7800 node tests/snippets.mjs       the last line counts
//
// What a snippet takes from around it (a client, a function of the application) stands in its row below, and so does
// what must come of it. Each snippet needs a row. Only addresses, credentials of servers with users and bodies that
// are left out in the text ("…") are replaced.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { transform } from "esbuild";
import { here, root } from "./parts.mjs";

const target = process.env.TIDERACE_URL;
/** Bounds failure only. */
const WAIT = 60_000;
const folder = join(here, "../node_modules/.snippets");
const sdk = (name) => pathToFileURL(join(here, `../dist/${name}.min.js`)).href;
const { connect } = await import(sdk("tiderace"));
const { topicsOf } = await import(sdk("topics"));
const { queuesOf } = await import(sdk("queues"));
const { io } = await import("socket.io-client");
const require = createRequire(import.meta.url);

/** Somebody else, who publishes, sends and asks while a snippet runs. */
const other = connect(target);

const sdkReadme = "clients/typescript/README.md";
const socketioReadme = "protocols/socketio/README.md";

/** By file, a row for each snippet, in order. */
const rows = {
  "README.md": [
    {
      name: "the SDK subscribes",
      async after({ printed }) {
        await until(printed, (line) => line[0] === 1.09, () => other.topic("fx/EUR-USD").publish({ bid: 1.09 }));
      },
    },
    {
      name: "socket.io-client subscribes",
      async after({ printed }) {
        const wanted = (line) => line[0] === "fx/EUR-USD" && line[1] === 1.1;
        await until(printed, wanted, () => other.topic("fx/EUR-USD").publish({ bid: 1.1 }));
      },
    },
  ],
  [sdkReadme]: [
    {
      name: "the first subscription",
      replace: [[', { token: "…" }', ""]],
      async after({ printed }) {
        const wanted = (line) => line[0] === 1.5 && line[1] === 1.6;
        await until(printed, wanted, () => other.topic("fx/EUR-USD").publish({ bid: 1.5, ask: 1.6 }));
      },
    },
    {
      name: "topics",
      replace: [["{ … }", "{ seen(topic, value); break; }"]],
      scope: (seen) => ({
        client: connect(target),
        show: (...all) => seen.push(["show", ...all]),
        warn: () => {},
        seen: (...all) => seen.push(["seen", ...all]),
      }),
      during: () => other.topic("fx/GBP-USD").publish({ bid: 1.3 }),
      async after({ seen }) {
        equal(seen.find(([what]) => what === "show")?.slice(1, 3), [{ bid: 1.0845, ask: 1.0847 }, "fx/EUR-USD"]);
        equal(seen.at(-1), ["seen", "fx/GBP-USD", { bid: 1.3 }]);
      },
    },
    {
      name: "topics that hold values",
      before: () => topicsOf(other).remove("desk/**"),
      replace: [["{ … }", "{ seen(version, time, value); }"], ["{ … }", "{ seen(path, value); }"]],
      scope: (seen) => ({
        client: connect(target),
        next: { bid: 2, ask: 3 },
        stop: () => {},
        seen: (...all) => seen.push(all),
      }),
      async after({ seen }) {
        const kept = seen.filter((all) => all.length === 3);
        ok(kept.length > 0 && kept.every(([version]) => version > 0), "the history says nothing");
        ok(seen.some((all) => all.length === 2), "nothing was fetched");
        await topicsOf(other).views.remove("desks");
      },
    },
    {
      name: "queues",
      replace: [["{ … }", "{ break; }"], ["{ … }", "{ seen(order.id ?? order.value?.id); break; }"]],
      scope: (seen) => ({
        client: connect(target),
        work: async (order) => seen.push(["worked", order.id ?? order.value?.id]),
        seen: (id) => seen.push(["looped", id]),
      }),
      during: () => other.queue("orders").send({ id: 2 }),
      async after({ seen }) {
        // The handler was stopped at once, so either of them has got the first order.
        equal(seen.at(-1)[0], "looped");
      },
    },
    {
      name: "operations on queues",
      before: async () => {
        await other.queue("jobs/mail").send({ id: 1 }, { properties: { colour: "red" } });
        await other.queue("dlq/jobs/mail").send({ id: 2 }, { properties: { "dead-letter-queue": "jobs/mail" } });
      },
      replace: [["{ … }", "{ seen(path, messages); }"], ["{ … }", "{ seen(position, value); }"]],
      scope: (seen) => ({ client: connect(target), seen: (...all) => seen.push(all) }),
      async after({ seen }) {
        ok(seen.some(([path, messages]) => path === "jobs/mail" && messages === 1), "nothing was listed");
        ok(seen.some(([, value]) => value?.id === 1), "nothing was looked at");
        equal(await queuesOf(other).purge("jobs/later"), 1);
      },
    },
    {
      name: "management",
      before: () => other.queue("jobs/mail").send({ id: 1 }),
      replace: [["{ … }", "{ seen(id, protocol); }"]],
      scope: (seen) => ({ client: connect(target), seen: (...all) => seen.push(all) }),
      async after({ seen, printed }) {
        ok(seen.length >= 2 && seen.every(([, protocol]) => protocol === "native"), "no sessions were listed");
        equal([printed[0][0] >= 2, printed[1]], [true, [0]]);
        equal(await queuesOf(other).purge("jobs/mail"), 1);
      },
    },
    {
      name: "durable subscriptions",
      scope: (seen) => ({ client: connect(target), keep: async (...all) => seen.push(all) }),
      async after() {
        await other.durable("audit").delete().then(
          () => ok(false, "it is there still"),
          ({ code }) => equal(code, "queue-unknown"),
        );
      },
    },
    {
      name: "services",
      scope: () => ({ client: connect(target), priceOf: (pair) => ({ pair, bid: 1.08 }) }),
      async after({ printed }) {
        equal(printed, [["ann: hello"], ["bye"]]);
      },
    },
    {
      name: "the connection",
      scope: () => ({ client: connect(target), freshToken: undefined }),
      async after() {},
    },
    {
      name: "several addresses",
      replace: [["wss://a.example.org", "http://127.0.0.1:1"], ["wss://b.example.org", target], [', { token: "…" }', ""]],
      async after({ printed }) {
        const wanted = ([bid, address]) => bid === 1.5 && address === `${target}/`;
        await until(printed, wanted, () => other.topic("fx/EUR-USD").publish({ bid: 1.5 }));
      },
    },
  ],
  [socketioReadme]: [
    {
      name: "a first session of Socket.IO",
      replace: [[', { auth: { token: "…" } }', ""]],
      scope: { require },
      async after({ printed }) {
        await until(printed, (line) => line[0]?.ok === true && typeof line[0].id === "number");
        await until(printed, (line) => line[0] === "fx/EUR-USD" && line[1]?.bid === 1.0842 && line[2] > 0);
      },
    },
    {
      name: "operations of Socket.IO",
      before: () => topicsOf(other).at("fx/EUR-USD").create({ type: "json", history: 10 }, { bid: 1 }),
      scope: () => ({ socket: io(target) }),
      async after({ printed }) {
        await until(printed, (line) => line[0]?.code === "condition-failed");
        await until(printed, (line) => Array.isArray(line[0]));
      },
    },
    {
      name: "deltas of Socket.IO",
      scope: () => {
        const { decode } = require("@ably/vcdiff-decoder");
        const bodies = {};
        return { socket: io(target), bodies, decode: (delta, body) => Buffer.from(decode(delta, body)) };
      },
      async after({ scope: { bodies } }) {
        const value = (round) => ({ round, text: "the same each time, and long enough for a difference".repeat(9) });
        for (let round = 0; round < 9; round++) {
          const right = () => bodies["fx/deltas"] && JSON.parse(bodies["fx/deltas"]).round === round;
          await other.topic("fx/deltas").publish(value(round), { retain: true });
          await until([], right, () => {});
        }
        equal(JSON.parse(bodies["fx/deltas"]), value(8));
      },
    },
    {
      name: "coming back with Socket.IO",
      scope: () => ({ socket: io(target, { autoConnect: false }) }),
      async after({ printed, scope: { socket } }) {
        const seen = [];
        socket.on("message", (path, value, meta, offset) => seen.push([value, offset]));
        socket.connect();
        await until(printed, (line) => line.length === 1 && line[0] === undefined);
        const has = (bid) => seen.some(([value, offset]) => value?.bid === bid && offset);
        await until([], () => has(2.1), () => other.topic("fx/EUR-USD").publish({ bid: 2.1 }));
        // Its session is over, as at another server.
        socket.disconnect();
        await other.topic("fx/EUR-USD").publish({ bid: 2.2 });
        socket.connect();
        await until(printed, (line) => line[0] === true);
        await until([], () => has(2.2), () => {});
      },
    },
  ],
  "protocols/events/README.md": [
    {
      name: "a stream of events",
      replace: [["'/events", `'${target}/events`]],
      async after({ printed }) {
        const wanted = ([update]) => update?.topic === "fx/EUR-USD" && update.value?.bid === 1.7;
        await until(printed, wanted, () => other.topic("fx/EUR-USD").publish({ bid: 1.7 }));
      },
    },
  ],
};

mkdirSync(folder, { recursive: true });
let [passed, failed] = [0, 0];
for (const [file, wanted] of Object.entries(rows)) {
  const blocks = snippets(readFileSync(join(root, file), "utf8"));
  await result(`${file} has ${wanted.length} snippets`, () => equal(blocks.length, wanted.length));
  for (const [at, row] of wanted.entries()) {
    if (blocks[at]) await result(`${file}: ${row.name}`, () => runs(file, at, blocks[at], row));
  }
}
console.log(`snippets: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

/** The blocks of JavaScript and TypeScript of a page. */
function snippets(page) {
  return [...page.matchAll(/^```(js|ts)\n(.*?)^```$/gms)].map(([, language, code]) => ({ language, code }));
}

/** Runs one as a module of its own. */
async function runs(file, at, { language, code }, row) {
  const [seen, printed] = [[], []];
  const scope = typeof row.scope === "function" ? row.scope(seen) : (row.scope ?? {});
  let text = code.replace(/https?:\/\/(127\.0\.0\.1:7800|live\.example\.org)/g, target);
  for (const [from, to] of row.replace ?? []) {
    ok(text.includes(from), `the snippet does not say ${from}`);
    text = text.replace(from, to);
  }
  text = (await transform(text, { loader: language, target: "es2022", tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } } })).code;
  text = text.replace(/from "tiderace"/g, `from "${sdk("tiderace")}"`).replace(/from "tiderace\/(topics|queues|manage)"/g, (_, name) => `from "${sdk(name)}"`);
  const name = `${file.replace(/\W+/g, "-")}-${at}.mjs`;
  globalThis.snippets ??= {};
  globalThis.snippets[name] = { ...scope, console: { log: (...all) => printed.push(all) } };
  const names = Object.keys(globalThis.snippets[name]).join(", ");
  writeFileSync(join(folder, name), `const { ${names} } = globalThis.snippets[${JSON.stringify(name)}];\n${text}`);
  await topicsOf(other).remove("fx/**");
  await row.before?.();
  const running = import(pathToFileURL(join(folder, name)).href);
  const during = row.during && setInterval(() => row.during().catch(() => {}), 50);
  try {
    await within(running, `it does not come to its end; printed so far: ${JSON.stringify(printed)}`);
    await row.after({ seen, printed, scope });
  } finally {
    clearInterval(during);
    // What belongs to its connection, such as a claim, is not to be in the way of the next.
    scope.client?.close();
    scope.socket?.close();
  }
}

async function result(name, test) {
  const error = await Promise.resolve().then(test).then(() => undefined, (error) => error);
  if (error) failed++;
  else passed++;
  console.log(error ? `not ok ${name}: ${error.stack ?? error}` : `ok ${name}`);
}

/** Waits until a printed line is the wanted one, while something is done again and again. */
async function until(printed, wanted, act) {
  const end = Date.now() + WAIT;
  const is = () => printed.length ? printed.some(wanted) : wanted.length === 0 && wanted();
  while (!is()) {
    ok(Date.now() < end, `the wanted line was not printed, but ${JSON.stringify(printed)}`);
    await act?.();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function within(promise, message) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(message)), WAIT); });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function ok(is, message) {
  if (!is) throw new Error(message);
}

function equal(is, wanted) {
  ok(JSON.stringify(is) === JSON.stringify(wanted), `${JSON.stringify(is)} instead of ${JSON.stringify(wanted)}`);
}
