// Runs the suite in this process.
//
//   node tests/node.mjs       the last line counts
//   TIDERACE_URL=http://127.0.0.1:7800 node tests/node.mjs       also the tests that want a real server
import * as fakes from "./fake.mjs";
import * as proxies from "./proxy.mjs";
import { groups, suite, vectors } from "./parts.mjs";

const target = process.env.TIDERACE_URL;
const real = target ? await proxies.create(target) : undefined;
const { run } = await import(await suite("node"));
const place = { fakes, proxies, vectors: vectors(), real, groups: groups(target) };
const [passed, failed] = await run(place, console.log);
console.log(`node: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
