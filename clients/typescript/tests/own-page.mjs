// A page of one's own, as README has it, in a headless Chromium: served by the server itself (`--www`), by another
// program on another port, and by one that the server does not let in.
//
//   node tests/own-page.mjs PROGRAM      the program `tiderace`
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { launch } from "./chromium.mjs";

const program = process.argv[2];
const WAIT = 20_000;
const root = mkdtempSync(join(tmpdir(), "tiderace-own-page-"));
const ended = [() => rmSync(root, { recursive: true })];
let [passed, failed] = [0, 0];

async function test(name, run) {
  try {
    await run();
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED ${name}: ${error.stack}`);
  }
}

/** Starts the program; its address, and what it logs. */
async function start(...args) {
  const server = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  ended.push(() => server.kill("SIGKILL"));
  const log = [];
  const told = new Promise((resolve, reject) => {
    // Development mode prints its addresses, `serve` logs them.
    const listen = (line) => {
      log.push(line);
      const found = /^ +(127\.0\.0\.1:\d+) |"address":"(127\.0\.0\.1:\d+)"/.exec(line);
      if (found) resolve(`http://${found[1] ?? found[2]}`);
    };
    createInterface({ input: server.stdout }).on("line", listen);
    createInterface({ input: server.stderr }).on("line", listen);
    server.on("exit", () => reject(new Error(`the server ended:\n${log.join("\n")}`)));
  });
  return { url: await told, log };
}

/** Another program, which serves one page from a port of its own. */
async function elsewhere() {
  const place = { page: "", origin: "" };
  const answer = (_, response) => response.writeHead(200, { "Content-Type": "text/html" }).end(place.page);
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  ended.push(() => server.close());
  place.origin = `http://localhost:${server.address().port}`;
  return place;
}

/** Opens a page and waits until its heading shows a text. */
async function shows(browser, url, text) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.log(`error in the page: ${error.stack}`));
  await page.goto(url);
  await page.waitForFunction((text) => document.querySelector("h1")?.textContent === text, text, { timeout: WAIT });
  await page.close();
}

/** PUT makes it the current value, which a page gets that comes later. */
const publish = (url, bid) =>
  fetch(`${url}/topics/fx/EUR-USD`, {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ bid }),
  }).then(({ ok }) => {
    if (!ok) throw new Error("not published");
  });

const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
const page = /```html\n([^]*?)```/.exec(readme)[1];
/** The same page, where the SDK and the server are at another address. */
const moved = (url) => page.replace('"/tiderace.min.js"', `"${url}/tiderace.min.js"`).replace("connect()", `connect("${url}")`);

const browser = await launch();
const folder = join(root, "pages");
mkdirSync(folder);
writeFileSync(join(folder, "index.html"), page);
const own = await start("--www", folder, "--listen", "127.0.0.1:0");
await publish(own.url, 1.09);

await test("the page of README, served by the server", async () => {
  await shows(browser, `${own.url}/`, "1.09");
});
await test("a page that was changed is served as it is now", async () => {
  writeFileSync(join(folder, "index.html"), "<!doctype html><h1>changed</h1>");
  const changed = async () => (await (await fetch(`${own.url}/`)).text()).includes("changed");
  const end = Date.now() + WAIT;
  while (!(await changed())) if (Date.now() > end) throw new Error("the old page is still served");
  await shows(browser, `${own.url}/live`, "Prices in motion");
});
await test("the same page, served by another program on another port", async () => {
  const other = await elsewhere();
  other.page = moved(own.url);
  await shows(browser, other.origin, "1.09");
});
await test("a page that is not let in is told so, and asks no more", async () => {
  const { url, log } = await start("serve", "--listen", "127.0.0.1:0", "--sdk");
  const other = await elsewhere();
  other.page = moved(url).replace(
    "client.topic",
    `client.on("state", ({ status, reason }) => {
       if (status === "closed") document.querySelector("h1").textContent = reason.code + ": " + reason.message;
     });
     client.topic`,
  );
  const why = `pages of \`${other.origin}\` may not connect: the option \`server.origins\` does not name this origin`;
  await shows(browser, other.origin, `origin-denied: ${why}`);
  // The log is written by a thread of its own, which may come behind the answer.
  const end = Date.now() + WAIT;
  while (!log.some((line) => line.includes(why))) {
    if (Date.now() > end) throw new Error(`the log does not say so:\n${log.join("\n")}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

await test("an origin that `server.origins` names is let in", async () => {
  const other = await elsewhere();
  const { url } = await start("serve", "--listen", "127.0.0.1:0", "--sdk", "--origins", other.origin);
  await publish(url, 1.1);
  other.page = moved(url);
  await shows(browser, other.origin, "1.1");
});

await browser.close();
for (const end of ended.reverse()) end();
console.log(`own: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
