// Runs the suite in a page of a headless Chromium; the fake server and the proxy stay in this process.
//
//   node tests/chromium.mjs      CHROMIUM names the program, by default /usr/bin/chromium
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import * as fakes from "./fake.mjs";
import { groups, suite, vectors } from "./parts.mjs";
import * as proxies from "./proxy.mjs";

/** What keeps it from asking the world for anything. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS });
}

async function main() {
  const browser = await launch();
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  const print = (line) => console.log(line);
  page.on("pageerror", (error) => print(`error in the page: ${error.stack}`));
  await page.exposeFunction("print", print);
  await page.exposeFunction("callFakes", (name, ...args) => fakes[name](...args));
  await page.exposeFunction("callProxies", (name, ...args) => proxies[name](...args));
  const code = readFileSync(fileURLToPath(await suite("chromium")), "utf8");
  const target = process.env.TIDERACE_URL;
  const real = target ? await proxies.create(target) : undefined;
  const own = await fakes.create();
  const runs = [[own.url, groups(target).filter((group) => group !== "real")]];
  // A page of the server itself: whatever origins it takes, it takes its own.
  if (real) runs.push([real.url, groups(target).filter((group) => group === "real")]);
  let passed = 0;
  let failed = 0;
  for (const [url, groups] of runs) {
    if (!groups.length) continue;
    await page.goto(url);
    const counts = await page.evaluate(runInPage, { code, place: { vectors: vectors(), real, groups } });
    passed += counts[0];
    failed += counts[1];
  }
  await browser.close();
  console.log(`chromium: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

async function runInPage({ code, place }) {
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const { run } = await import(url);
  const remote = (call) => new Proxy({}, { get: (_, name) => (...args) => call(name, ...args) });
  const whole = { ...place, fakes: remote(window.callFakes), proxies: remote(window.callProxies) };
  return run(whole, (line) => window.print(line));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
