// Follows pages step by step, as a newcomer with a fresh clone; see `run` beside this file, and `parse.mjs` for what a page says.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch } from "../../clients/typescript/tests/chromium.mjs";
import { steps } from "./parse.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const binary = process.env.TIDERACE_BIN;
const WAIT = 60_000;
const place = mkdtempSync(join(tmpdir(), "tiderace-newcomer-"));
/** What a clone has, and the folder of the reader's own beside it. */
const [clone, own] = [join(place, "tiderace"), join(place, "app")];
const running = new Map();
/** What the page has had saved; the server's address is not known before it runs. */
const files = new Map();
let address;
let [passed, failed] = [0, 0];
let browser;
/**
 * What stands for 127.0.0.1, so that a port which is free for a moment, as when the server is started again, is nobody else's
 * meanwhile: connections of other programs take theirs of 127.0.0.1. Only Linux has all of 127.0.0.0/8 from the beginning.
 */
const host = process.platform === "linux" ? `127.9.${(process.pid >> 8) & 255}.${process.pid & 255}` : "127.0.0.1";
/** For a server of the reader's own, which pages have at 7801. */
let ownPort;

prepare();
process.on("exit", () => {
  for (const child of running.values()) end(child, "SIGKILL");
  rmSync(place, { recursive: true, force: true });
});
function read(file) {
  return readFileSync(join(root, file), "utf8");
}

/** A clone has what git knows, and what it would know; the program that it would have built is the one that is given. */
function prepare() {
  const listed = execFileSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], { cwd: root, maxBuffer: 1 << 26 });
  for (const file of listed.toString().split("\0")) {
    if (!file || /^(core|transports|protocols\/\w+\/(src|tests|fuzz)|shell|tools)\//.test(file) || !existsSync(join(root, file))) continue;
    mkdirSync(dirname(join(clone, file)), { recursive: true });
    cpSync(join(root, file), join(clone, file));
  }
  const built = join(clone, "target/release");
  mkdirSync(built, { recursive: true });
  symlinkSync(binary, join(built, "tiderace"));
  mkdirSync(own);
}

/** Follows one page; at its first mistake it ends, since what comes after builds upon it. */
async function follow(page) {
  const begin = Date.now();
  const cwd = page === "README.md" ? clone : own;
  let at = 0;
  try {
    for (const step of steps(read(page))) {
      at = step.line;
      if (/\b7801\b/.test(JSON.stringify(step))) ownPort ??= await freePort();
      await does[step.kind](step, cwd);
      passed++;
    }
    console.log(`ok ${page} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    const message = error.message.length > 3000 ? `${error.message.slice(0, 1000)} … ${error.message.slice(-2000)}` : error.message;
    console.log(`not ok ${page}:${at}: ${message}`);
  }
  for (const child of running.values()) await ended(child, "SIGTERM");
  running.clear();
  files.clear();
  address = ownPort = undefined;
}

async function freePort() {
  const server = createServer().listen(0, host);
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

function save(file) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, here(files.get(file)));
}

/** What a page says, for the server that is there, and for a port that is free in place of the reader's own. */
function here(text) {
  const port = address ? address.split(":")[1] : "7800";
  return text.replaceAll("127.0.0.1", host).replace(/\b7800\b/g, port).replace(/\b7801\b/g, ownPort);
}

const does = {
  file({ name, text }, cwd) {
    files.set(join(cwd, name), text);
    save(join(cwd, name));
  },

  async run({ text, status, prints }, cwd) {
    const child = shell(text, cwd);
    const timer = setTimeout(() => end(child, "SIGKILL"), 2 * WAIT);
    const [code] = await once(child, "close");
    clearTimeout(timer);
    if (code !== status) throw new Error(`it ended with ${code} instead of ${status}:\n${child.out}${child.err}`);
    if (prints !== undefined) same(child.out, here(prints), child);
  },

  async terminals({ text }, cwd) {
    const all = [];
    for (const [index, line] of text.trimEnd().split("\n").entries()) {
      const more = await moreSubscriptions();
      const child = shell(line, cwd);
      child.compared = 0;
      all.push([line, child]);
      running.set(String(index + 1), child);
      const timeout = Date.now() + WAIT;
      while (child.exitCode === null && !child.out && !(await more())) {
        if (Date.now() > timeout) throw new Error(`${line}: it neither ends, nor prints, nor subscribes:\n${child.err}`);
      }
    }
    for (const [line, child] of all) {
      if (child.exitCode) throw new Error(`${line}: it ended with ${child.exitCode}:\n${child.out}${child.err}`);
    }
  },

  async server({ text, by }, cwd) {
    const before = running.get("the server");
    if (before) await ended(before, "SIGTERM");
    const child = shell(by ?? text, cwd, { TIDERACE_LISTEN: address ?? `${host}:0` });
    running.set("the server", child);
    const told = () => /^ +(127\.[\d.]+:\d+) |"address":"(127\.[\d.]+:\d+)"/m.exec(child.out + child.err);
    await until(child, told, "started");
    const [, one, other] = told();
    address = one ?? other;
    for (const file of files.keys()) save(file);
  },

  async background({ name, until: text, text: commands }, cwd) {
    const more = text ? undefined : await moreSubscriptions();
    const child = shell(commands, cwd);
    child.compared = 0;
    running.set(name, child);
    if (text) return until(child, () => (child.out + child.err).includes(here(text)), `printed "${text}"`);
    const timeout = Date.now() + WAIT;
    while (!(await more())) {
      if (child.exitCode !== null || Date.now() > timeout) throw new Error(`it did not subscribe:\n${child.out}${child.err}`);
    }
  },

  async later({ name, text }) {
    const child = running.get(name);
    if (!child) throw new Error(`nothing in the background is called ${name}`);
    const wanted = here(text);
    const lines = wanted.split("\n").length - 1;
    const rest = () => child.out.slice(child.compared).split("\n");
    await until(child, () => rest().length > lines, `printed ${lines} lines`, false);
    const got = rest().slice(0, lines).map((line) => `${line}\n`).join("");
    child.compared += got.length;
    same(got, wanted, child);
  },

  async end({ name }) {
    await ended(running.get(name), "SIGINT");
    running.delete(name);
  },

  async browser({ url, text }) {
    if (!existsSync(process.env.CHROMIUM)) {
      if (process.env.CI === "true") throw new Error(`there is no ${process.env.CHROMIUM}`);
      console.log(`LEFT OUT: a page in Chromium (no ${process.env.CHROMIUM})`);
      return;
    }
    browser ??= await launch();
    const page = await browser.newPage();
    try {
      await page.goto(here(url));
      const is = (text) => document.body.innerText.includes(text);
      await page.waitForFunction(is, text, { timeout: WAIT }).catch(async () => {
        throw new Error(`the page shows:\n${await page.evaluate(() => document.body.innerText)}`);
      });
    } finally {
      await page.close();
    }
  },
};

/** Runs commands, in a group of their own so that all of it can be ended. */
function shell(text, cwd, env = {}) {
  const path = [join(clone, "target/release"), process.env.PATH].join(delimiter);
  const host = address ? { TIDERACE_HOST: address } : {};
  const child = spawn("bash", ["-euo", "pipefail", "-c", here(text)], {
    cwd,
    env: { ...process.env, PATH: path, ...host, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  [child.out, child.err] = ["", ""];
  child.stdout.on("data", (data) => (child.out += data));
  child.stderr.on("data", (data) => (child.err += data));
  return child;
}

/** Waits until that is so, for as long as the commands may print something. */
async function until(child, is, what, mayEnd = true) {
  const timeout = Date.now() + WAIT;
  while (!is()) {
    const over = child.exitCode !== null && mayEnd;
    if (over || Date.now() > timeout) throw new Error(`it has not ${what}:\n${child.out}${child.err}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Asks whether there is a subscription more than there was, or than there were left of those whose end the server hears of late. */
async function moreSubscriptions() {
  let least = await subscriptions();
  return async () => {
    const now = await subscriptions();
    const is = now > least;
    least = Math.min(least, now);
    return is;
  };
}

async function subscriptions() {
  const text = await (await fetch(`http://${address}/metrics`)).text();
  return Number(/^tiderace_subscriptions (\d+)$/m.exec(text)[1]);
}

function end(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    // It has ended by itself.
  }
}

async function ended(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const over = once(child, "close");
  end(child, signal);
  const timer = setTimeout(() => end(child, "SIGKILL"), 10_000);
  await over;
  clearTimeout(timer);
}

/** What was printed is what the page says; "…" stands for anything. */
function same(got, wanted, child) {
  const quoted = wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("…", "[^]*");
  if (!new RegExp(`^${quoted}$`).test(got)) {
    throw new Error(`it printed\n${got}instead of\n${wanted}${child.err}`);
  }
}

for (const page of process.argv.slice(2)) await follow(page);
await browser?.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
