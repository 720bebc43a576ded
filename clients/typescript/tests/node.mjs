// Runs the suite in this process.
//
//   node tests/node.mjs       the last line counts
//   TIDERACE_URL=http://127.0.0.1:7800 node tests/node.mjs       also the tests that want a real server
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as fakes from "./fake.mjs";
import * as proxies from "./proxy.mjs";
import { groups, here, suite, vectors } from "./parts.mjs";

const target = process.env.TIDERACE_URL;
const real = target ? await proxies.create(target) : undefined;
const { run } = await import(await suite("node"));
const place = { fakes, proxies, vectors: vectors(), real, groups: groups(target) };
let [passed, failed] = await run(place, console.log);
if (place.groups.includes("connection")) {
  for (const [name, transport, folder] of [
    ["the built file finds the package ws", "websocket", "dist"],
    ["the built file polls where there is no WebSocket", "polling", undefined],
  ]) {
    const found = await built(transport, folder).catch((error) => error.stack);
    if (found === transport) passed++;
    else failed++;
    console.log(`${found === transport ? "ok" : "not ok"} connection: ${name}${found === transport ? "" : `: ${found}`}`);
  }
}
console.log(`node: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

/** By what a client made from the built file connects, with `ws` beside it or far from it. */
async function built(wanted, folder) {
  if (globalThis.WebSocket && !folder) return wanted;
  const file = join(here, "../dist/tiderace.min.js");
  const away = folder ? undefined : mkdtempSync(join(tmpdir(), "tiderace-"));
  const copy = away ? join(away, "tiderace.mjs") : file;
  if (away) copyFileSync(file, copy);
  const { connect } = await import(pathToFileURL(copy).href);
  const { id, url } = await fakes.create();
  const client = connect(url);
  const { transport } = await fakes.next(id);
  client.close();
  await fakes.destroy(id);
  if (away) rmSync(away, { recursive: true });
  return transport;
}
