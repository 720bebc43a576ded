// A soak: publishes and subscribes for some minutes while the line is cut every few seconds, and shows that no
// message was missed unnoticed and that memory does not grow.
//
//   node soak.mjs http://127.0.0.1:7800 [minutes=30] [seconds between cuts=4]
//
// One client publishes counters to topics; others subscribe by both transports through proxies that are cut, made
// silent or kept down for a moment at random. A counter that jumps without a gap, recovered or told, is a failure;
// so is one that goes back. The last line sums up; the status is 0 if all was well.
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "./dist/tiderace.min.js";
import * as proxies from "./tests/proxy.mjs";

const [target, minutes = "30", seconds = "4"] = process.argv.slice(2);
if (!target) {
  console.error("usage: node soak.mjs URL [minutes] [seconds between cuts]");
  process.exit(2);
}
if (typeof WebSocket === "undefined") {
  console.error("this Node has no WebSocket: use Node 22, or node --experimental-websocket");
  process.exit(2);
}
const TOPICS = 20;
const RATE_MS = 25;
const folder = `soak/${process.pid}`;
const counts = { received: 0, gaps: 0, told: 0, incomplete: 0, recovered: 0, unnoticed: 0, repeated: 0, cuts: 0 };
const trouble = [];
let ended = false;

/** One subscriber of its own, behind its own proxy. */
async function follow(name, options, pattern) {
  const proxy = await proxies.create(target);
  const client = connect(proxy.url, { pongTimeout: 1500, reconnect: { base: 50, max: 1000 }, ...options });
  const last = new Map();
  // Topics of which something was told to be missing before the next message.
  const excused = new Map();
  const subscription = (value, { topic }) => {
    counts.received++;
    const known = last.get(topic);
    if (known !== undefined && value.n <= known) {
      counts.repeated++;
      trouble.push(`${name} ${topic}: ${value.n} after ${known}`);
    } else if (known !== undefined && value.n !== known + 1 && !excused.get(topic)) {
      counts.unnoticed++;
      trouble.push(`${name} ${topic}: ${value.n} after ${known}, and nothing was said`);
    }
    excused.delete(topic);
    last.set(topic, value.n);
  };
  const paths = pattern ? [`${folder}/*`] : Array.from({ length: TOPICS }, (_, at) => `${folder}/${at}`);
  for (const path of paths) {
    const one = client.topic(path).subscribe(subscription);
    one.on("gap", ({ topic, missed }) => {
      counts.gaps++;
      counts.told += missed ?? 0;
      for (const each of topic ? [topic] : pattern ? last.keys() : [path]) excused.set(each, true);
    });
    one.on("recovered", ({ complete }) => counts[complete ? "recovered" : "incomplete"]++);
    // When all is over, a client that is on the way back is told that it is.
    one.on("error", (error) => !ended && trouble.push(`${name}: ${error.code} ${error.message}`));
    await one.ready;
  }
  return {
    client,
    last,
    proxy,
    async disturb() {
      counts.cuts++;
      const kind = Math.random();
      if (kind < 0.5) proxies.cut(proxy.id);
      else if (kind < 0.8) {
        proxies.cut(proxy.id, true);
        await sleep(Math.random() * 1500);
        proxies.up(proxy.id);
      } else {
        // Silence is found out by the next ping; so that it does not take long, the application asks.
        proxies.silence(proxy.id);
        await sleep(500);
        client.cut();
      }
    },
  };
}

const followers = await Promise.all([
  follow("websocket", { transports: ["websocket"] }, false),
  follow("websocket pattern", { transports: ["websocket"] }, true),
  follow("polling", { transports: ["polling"] }, false),
  follow("either, pattern", {}, true),
]);
const publisher = connect(target, { name: "soak" });
const end = Date.now() + Number(minutes) * 60_000;
let published = 0;
let over = false;

const publishing = (async () => {
  const numbers = new Array(TOPICS).fill(0);
  while (!over) {
    const at = Math.floor(Math.random() * TOPICS);
    const value = { n: ++numbers[at], text: "live data ".repeat(20) };
    await publisher.topic(`${folder}/${at}`).publish(value, { retain: true });
    published++;
    await sleep(RATE_MS * Math.random());
  }
  return numbers;
})();

const heaps = [];
for (let round = 0; Date.now() < end; round++) {
  await sleep(Number(seconds) * 500 * (1 + Math.random()));
  await Promise.all(followers.map((follower) => (Math.random() < 0.7 ? follower.disturb() : undefined)));
  if (round % 10 === 9) {
    globalThis.gc?.();
    heaps.push(process.memoryUsage().heapUsed);
    console.log(`${Math.round((end - Date.now()) / 1000)} s left, heap ${mib(heaps.at(-1))}, ${JSON.stringify(counts)}`);
  }
}
over = true;
const numbers = await publishing;

// Everyone has to arrive at the last numbers.
const deadline = Date.now() + 30_000;
const behind = () =>
  followers.flatMap(({ last }) => numbers.map((n, at) => (n && last.get(`${folder}/${at}`) !== n ? 1 : 0))).reduce((a, b) => a + b, 0);
while (behind() && Date.now() < deadline) await sleep(100);
if (behind()) trouble.push(`${behind()} topics did not arrive at their last number`);

globalThis.gc?.();
heaps.push(process.memoryUsage().heapUsed);
const early = Math.min(...heaps.slice(0, Math.max(1, Math.ceil(heaps.length / 4))));
const late = Math.min(...heaps.slice(-Math.max(1, Math.ceil(heaps.length / 4))));
if (globalThis.gc && late > early * 1.5 + 4 * 2 ** 20) trouble.push(`the heap grew from ${mib(early)} to ${mib(late)}`);
ended = true;
for (const { client } of followers) client.close();
publisher.close();
for (const line of trouble.slice(0, 50)) console.log(line);
console.log(
  `soak: ${published} published, ${counts.received} received, ${counts.cuts} cuts, ${counts.recovered} recovered, ` +
    `${counts.incomplete} incomplete, ${counts.gaps} gaps told, ${counts.unnoticed} unnoticed, ${counts.repeated} repeated, ` +
    `heap ${mib(early)} to ${mib(late)}: ${trouble.length ? "FAILED" : "ok"}`,
);
process.exit(trouble.length ? 1 : 0);

function mib(bytes) {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
