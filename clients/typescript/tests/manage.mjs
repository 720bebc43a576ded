// `tiderace/manage` at a real server that knows viewers, operators and admins: every verb of the table is there, is allowed
// to whom it says, and lists go on page by page.
//
//   node tests/manage.mjs PROGRAM      the program `tiderace`; the last line counts
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect, TideraceError } from "../dist/tiderace.min.js";
import { List, manage, verbs } from "../dist/manage.min.js";
import { root } from "./parts.mjs";

const program = process.argv[2];
/** Bounds failure only. */
const WAIT = 60_000;
const ROLES = ["none", "viewer", "operator", "admin"];
const HASH =
  "$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$GpZ3sK/oH9p7VIiV56G/64Zo/8GaUw434IimaPqxwCo";
const folder = mkdtempSync(join(tmpdir(), "tiderace-manage-"));
const server = spawn(program, ["serve", "--config", configuration()], { stdio: ["ignore", "ignore", "pipe"] });
const url = await started();
const open = [];
const as = Object.fromEntries(ROLES.map((role) => [role, client(role)]));
const admin = manage(as.admin);
/** What the server's own document says of verbs: it is made of the same table. */
const resources = await described();
let [passed, failed] = [0, 0];

await test("every verb of the server has its function, and no function is of another verb", () => {
  const known = Object.values(verbs).map(({ name }) => name);
  equal(known.sort(), Object.keys(resources).sort());
  for (const [name, verb] of Object.entries(verbs)) {
    const { about } = resources[verb.name];
    equal(typeof admin[name], "function", name);
    const said = [about["x-tiderace-operation"], about["x-tiderace-role"], about["x-tiderace-confirm"]];
    equal([verb.do, verb.role, verb.confirm ?? false], said, name);
  }
});

for (const role of ROLES) {
  await test(`verbs that are not for ${role} are refused by name`, async () => {
    const theirs = manage(as[role]);
    const above = Object.entries(verbs).filter(([, verb]) => ROLES.indexOf(verb.role) > ROLES.indexOf(role));
    equal(above.length > 0, role !== "admin");
    for (const [name, verb] of above) {
      const error = await ask(theirs, name, fields(verb)).catch((error) => error);
      const hidden = verb.hides && isEmpty(error);
      ok(hidden || error instanceof TideraceError, `${role} ${name}: ${JSON.stringify(error)}`);
      ok(hidden || error.code === "not-authorised", `${role} ${name}: ${error.code}, ${error.message}`);
    }
  });
}

await test("whoever may is answered, by lists with one member that is a list", async () => {
  await as.admin.queue("jobs").send(1);
  for (const [name, verb] of Object.entries(verbs).filter(([, verb]) => !verb.changes)) {
    for (const role of ROLES.slice(ROLES.indexOf(verb.role))) {
      const answer = await ask(manage(as[role]), name, fields(verb)).catch((error) => error);
      ok(answer.code !== "not-authorised", `${role} ${name}: ${answer.message}`);
      if (!verb.pages || answer instanceof Error) continue;
      equal(Object.values(answer).filter(Array.isArray).length, 1, name);
      ok(!answer.more || "next" in answer, `${name} has more, and does not say where`);
    }
  }
});

await test("sessions come page by page, each once", async () => {
  const others = Array.from({ length: 7 }, () => client("none"));
  await Promise.all(others.map((other) => other.topic("none").value().catch(() => {})));
  const [asked, counting] = counted(as.viewer);
  const ids = [];
  for await (const { id } of manage(counting).sessions({ protocol: "native", sort: "id", limit: 2 })) ids.push(id);
  equal([new Set(ids).size, ids.length], [open.length, open.length]);
  equal(asked.length, Math.ceil(open.length / 2));
  equal(asked.map(({ after }) => after !== undefined), asked.map((_, at) => at > 0));
  ok(asked.every(({ protocol, limit }) => protocol === "native" && limit === 2), "a page forgets what is wanted");
  const page = await admin.sessions({ protocol: "native", limit: 3 }).page();
  equal([page.sessions.length, page.matched, page.more], [3, open.length, true]);
  for (const other of others) other.close();
});

await test("a loop that ends asks for no more", async () => {
  const [asked, counting] = counted(as.viewer);
  for await (const { id } of manage(counting).sessions({ limit: 1 })) {
    ok(id, "a session has an id");
    break;
  }
  equal(asked.length, 1);
});

await test("other lists go on by what their pages begin with", async () => {
  for (let at = 0; at < 5; at++) {
    await as.admin.queue("pages/jobs").send({ at });
    await as.admin.queue(`pages/${at}`).send(at);
    await admin.putUser({ name: `page-${at}`, password_hash: HASH });
  }
  const wanted = (list, show) => all(list).then((found) => found.map(show));
  const five = [0, 1, 2, 3, 4];
  equal(await wanted(admin.peek({ path: "pages/jobs", limit: 2 }), ({ value }) => value.at), five);
  equal((await wanted(admin.queues({ pattern: "pages/*", limit: 2 }), ({ path }) => path)).sort().length, 6);
  const users = await wanted(admin.users({ limit: 2 }), ({ name }) => name);
  equal(users.filter((name) => name?.startsWith("page-")).sort(), five.map((at) => `page-${at}`));
  const records = await wanted(admin.audit({ after: 0, verb: "put-user", limit: 2 }), ({ who, outcome }) => [who, outcome]);
  const done = records.filter(([, outcome]) => outcome === "done");
  equal(done, five.map(() => ["admin", "done"]));
  equal(await all(admin.queues({ pattern: "none/*" })), []);
});

await test("operators do what theirs is", async () => {
  const operator = manage(as.operator);
  const path = "done/jobs";
  for (let at = 0; at < 3; at++) await as.admin.queue(path).send({ at });
  await operator.pause({ path });
  equal((await operator.queue({ path }).page()).paused, true);
  await operator.resume({ path });
  equal((await operator.move({ from: path, to: "done/later", limit: 1 })).messages, 1);
  equal((await operator.purge({ path })).messages, 2);
  const victim = client("ann");
  const ended = new Promise((resolve) => victim.on("state", (state) => state.status === "closed" && resolve(state.reason)));
  await victim.topic("none").value().catch(() => {});
  equal(await operator.kick({ principal: "ann", dry_run: true }), { sessions: 1, dry_run: true });
  equal(await operator.kick({ principal: "ann", reason: "try later" }), { sessions: 1, dry_run: false });
  equal((await ended).code, "kicked");
});

await test("what makes no sense is refused by name, in a promise and in a loop", async () => {
  await refused(admin.topic({ path: "" }), undefined);
  await refused(admin.kick({}), undefined);
  await refused(manage(as.viewer).pause({ path: "jobs" }), "not-authorised");
  await refused(all(manage(as.viewer).peek({ path: "jobs" })), "not-authorised");
  await refused(all(admin.queue({ path: "no/such/queue" })), "queue-unknown");
});

for (const client of open) client.close();
server.kill("SIGKILL");
rmSync(folder, { recursive: true });
console.log(`manage: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

/** A file with somebody for each role, and ann, who have the rules that docs/management.md says. */
function configuration() {
  const page = readFileSync(join(root, "docs/management.md"), "utf8");
  const rules = /<!-- made: roles -->\n```toml\n(.*?)```/s.exec(page)[1];
  const tokens = [...ROLES, "ann"].map((role) => {
    const file = join(folder, `${role}.token`);
    writeFileSync(file, token(role));
    return `[[token]]\nname = "${role}"\nsecret = "file:${file}"\ngroups = ["${role}s"]\n`;
  });
  const sends = `[[rule]]\nallow = ["send", "create"]\nprincipals = ["user:admin"]\nkind = "queue"\npaths = ["**"]\n`;
  const store = JSON.stringify(join(folder, "store"));
  const file = join(folder, "tiderace.toml");
  const server = `[server]\nlisten = ["127.0.0.1:0"]\nshards = 2\n[auth]\nmanaged = true\n[store]\ndirectory = ${store}\n`;
  writeFileSync(file, server + tokens.join("") + rules + sends);
  return file;
}

function token(role) {
  return `the token of ${role}`;
}

/** The address, which the log tells. */
function started() {
  const log = [];
  return new Promise((resolve, reject) => {
    server.on("exit", () => reject(new Error(`the server ended:\n${log.join("\n")}`)));
    createInterface({ input: server.stderr }).on("line", (line) => {
      log.push(line);
      const found = /"address":"(127\.0\.0\.1:\d+)"/.exec(line);
      if (found) resolve(`http://${found[1]}`);
    });
  });
}

function client(role) {
  const client = connect(url, { token: token(role), transports: ["websocket"] });
  open.push(client);
  return client;
}

async function described() {
  const { paths } = await (await fetch(`${url}/manage/openapi.json`)).json();
  const all = Object.values(paths).flatMap((path) => Object.values(path));
  return Object.fromEntries(all.filter(({ operationId }) => operationId !== "openapi").map((about) => [about.operationId, { about }]));
}

/** What a verb cannot do without, as the document shows it by example. */
function fields({ name }) {
  const { about } = resources[name];
  const body = about.requestBody?.content["application/json"].schema ?? { properties: {} };
  const given = about.parameters.filter(({ required }) => required).map(({ name, schema }) => [name, schema]);
  const wanted = [...(body.required ?? []), ...(body.anyOf?.[0].required ?? [])];
  given.push(...wanted.map((name) => [name, body.properties[name]]));
  return Object.fromEntries(given.map(([name, schema]) => [name, schema.examples[0]]));
}

/** One answer, also of a list. */
async function ask(management, name, fields) {
  const asked = management[name](fields);
  return asked instanceof List ? asked.page() : asked;
}

function isEmpty(answer) {
  return !(answer instanceof Error) && Object.values(answer).some((value) => Array.isArray(value) && !value.length);
}

/** A client whose operations are counted. */
function counted(client) {
  const asked = [];
  return [asked, { operate: (operation) => (asked.push(operation), client.operate(operation)) }];
}

async function all(list) {
  const found = [];
  for await (const one of list) found.push(one);
  return found;
}

async function refused(promise, code) {
  const error = await promise.then(() => undefined, (error) => error);
  ok(error instanceof TideraceError, `${error} is no error of the SDK`);
  if (code) equal(error.code, code);
}

async function test(name, run) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("it has not ended in time")), WAIT); });
  try {
    await Promise.race([run(), late]);
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${name}: ${error.stack}`);
  }
  clearTimeout(timer);
}

function ok(is, what) {
  if (!is) throw new Error(what);
}

function equal(is, wanted, what = "value") {
  ok(JSON.stringify(is) === JSON.stringify(wanted), `${what}: ${JSON.stringify(is)} instead of ${JSON.stringify(wanted)}`);
}
