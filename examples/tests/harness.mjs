// A server that is started as the READMEs of the examples say, and tests that count.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const examples = dirname(dirname(fileURLToPath(import.meta.url)));
const root = dirname(examples);
const WAIT = 20_000;
let [passed, failed] = [0, 0];

export async function test(name, body) {
  try {
    await body();
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${name}: ${error.stack}`);
  }
}

export function finish(name) {
  console.log(`${name}: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

export function ok(is, what) {
  if (!is) throw new Error(what);
}

export function equal(is, wanted, what) {
  ok(JSON.stringify(is) === JSON.stringify(wanted), `${what}: ${JSON.stringify(is)} instead of ${JSON.stringify(wanted)}`);
}

/** Waits until that is so. */
export async function until(is, what) {
  const end = Date.now() + WAIT;
  while (!is()) {
    ok(Date.now() < end, `never: ${typeof what === "function" ? what() : what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The first command of a page. */
export const command = (page) => /^```sh\n(.*)$/m.exec(readFileSync(join(examples, page), "utf8"))?.[1];

/** Starts the server by the command of the README, at a port of the system's choice; its address. */
export async function start(program) {
  const [name, ...args] = command("README.md").split(" ");
  equal(name, "target/release/tiderace", "the program of the README");
  const server = spawn(program, [...args, "--listen", "127.0.0.1:0"], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  process.on("exit", () => server.kill("SIGKILL"));
  const log = [];
  return new Promise((resolve, reject) => {
    const line = (line) => {
      log.push(line);
      const found = /^ +(127\.0\.0\.1:\d+) /.exec(line);
      if (found) resolve(`http://${found[1]}`);
    };
    for (const output of [server.stdout, server.stderr]) createInterface({ input: output }).on("line", line);
    server.on("exit", () => reject(new Error(`the server ended:\n${log.join("\n")}`)));
  });
}
