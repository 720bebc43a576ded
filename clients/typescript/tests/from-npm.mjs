// The way of a newcomer, in one run and timed: from the start of a server to the first live message in a page of one's own, which
// another program serves on another port with the package as `npm install` brings it. The page is opened in a headless Chromium.
//
//   node tests/from-npm.mjs PROGRAM      the program `tiderace`
//
// Each command that somebody would type is printed with the second at which it was. The last line counts.
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { launch } from "./chromium.mjs";

/** What a newcomer may have to type, and how many seconds it may take with all that is typed. */
const [COMMANDS_MAX, SECONDS_MAX] = [6, 60];
const program = process.argv[2];
const package_ = fileURLToPath(new URL("..", import.meta.url));
const root = mkdtempSync(join(tmpdir(), "tiderace-from-npm-"));
const folder = join(root, "app");
const ended = [];
const run = promisify(execFile);
let commands = 0;
let begin = 0;

const seconds = () => (performance.now() - begin) / 1000;

/** Counts a command, and shows it as it would be typed. */
function typed(command, args) {
  commands++;
  begin ||= performance.now();
  const words = [command === program ? "tiderace" : command, ...args].map((word) => word.replace(package_, "tiderace/clients/typescript/"));
  const shown = words.map((word) => (/[{}"]/.test(word) ? `'${word}'` : word));
  console.log(`${seconds().toFixed(1).padStart(5)} s  ${shown.join(" ")}`);
}

/** A command that ends. */
function ends(command, ...args) {
  typed(command, args);
  return run(command, args, { cwd: folder, timeout: SECONDS_MAX * 1000 });
}

/** A command that goes on: what its first line says that is searched for. */
function goesOn(found, command, ...args) {
  typed(command, args);
  const child = spawn(command, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  ended.push(() => child.kill("SIGKILL"));
  return new Promise((resolve, reject) => {
    const log = [];
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on("line", (line) => {
        log.push(line);
        const text = found.exec(line)?.[1];
        if (text) resolve(text);
      });
    }
    child.on("error", reject);
    child.on("exit", () => reject(new Error(`${command} ended:\n${log.join("\n")}`)));
  });
}

/** A page as somebody writes it: the package's file from where npm has put it, and no build. */
const page = (address) => `<!doctype html>
<link rel="icon" href="data:," />
<h1>not connected</h1>
<script type="module">
  import { connect } from "./node_modules/tiderace/dist/tiderace.min.js";
  const heading = document.querySelector("h1");
  const quotes = connect("${address}").topic("own/EUR-USD").subscribe((quote) => (heading.textContent = quote.bid));
  await quotes.ready;
  heading.textContent = "no quote yet";
</script>
`;

const shows = (tab, text) =>
  tab.waitForFunction((text) => document.querySelector("h1")?.textContent === text, text, { timeout: SECONDS_MAX * 1000 });

async function firstMessage() {
  mkdirSync(folder);
  const server = await goesOn(/^ +(127\.0\.0\.1:\d+) /, program, "--listen", "127.0.0.1:0");
  // The package is in no registry yet; with one, this command is not needed.
  await ends("npm", "pack", package_);
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz"));
  await ends("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", `./${tarball}`);
  writeFileSync(join(folder, "index.html"), page(`http://${server}`));
  const files = await goesOn(/\(?(http:\/\/127\.0\.0\.1:\d+)/, "python3", "-u", "-m", "http.server", "-b", "127.0.0.1", "0");
  typed("chromium", [files]);
  const browser = await launch();
  ended.push(() => browser.close());
  const tab = await browser.newPage();
  tab.on("pageerror", (error) => console.log(`error in the page: ${error.stack}`));
  tab.on("console", (message) => message.type() === "error" && console.log(`console of the page: ${message.text()}`));
  await tab.goto(files);
  // Nothing is retained, so what comes after this is a live message and no value from before.
  await shows(tab, "no quote yet");
  await ends(program, "pub", "-s", server, "own/EUR-USD", '{"bid":1.25}');
  await shows(tab, "1.25");
}

let failed = 0;
try {
  await firstMessage();
  const took = seconds();
  console.log(`first live message: ${took.toFixed(1)} s and ${commands} commands after nothing but the program was there`);
  if (commands > COMMANDS_MAX) throw new Error(`${commands} commands are more than ${COMMANDS_MAX}`);
  if (took > SECONDS_MAX) throw new Error(`${took} seconds are more than ${SECONDS_MAX}`);
} catch (error) {
  failed = 1;
  console.log(`not ok ${error.stack}\n${error.stdout ?? ""}${error.stderr ?? ""}`);
}
for (const end of ended.reverse()) await end();
rmSync(root, { recursive: true });
console.log(`first: ${1 - failed} passed, ${failed} failed`);
process.exit(failed);
