// Random edits, made by the codecs in Rust: the SDK's decoder must make the same values of them, and so must
// @ably/vcdiff-decoder of those in VCDIFF.
//
//   cargo run -p tiderace-delta --example edits -- 100000 | node tests/deltas.mjs 100000       the last line counts
import { fileURLToPath, pathToFileURL } from "node:url";
import { decode as decodeVcdiff } from "@ably/vcdiff-decoder";
import { build } from "esbuild";

const expected = Number(process.argv[2] ?? 1);
const outfile = fileURLToPath(new URL("../node_modules/.suite/delta.mjs", import.meta.url));
await build({
  entryPoints: [fileURLToPath(new URL("../src/delta.ts", import.meta.url))],
  outfile,
  bundle: true,
  format: "esm",
  target: "es2022",
});
const { applyDelta } = await import(pathToFileURL(outfile).href);

const decoders = [
  { name: "applyDelta of the SDK", apply: applyDelta, cases: 0, bytes: 0, failures: 0 },
  { name: "@ably/vcdiff-decoder", apply: (old, delta) => decodeVcdiff(delta, old), cases: 0, bytes: 0, failures: 0 },
];
let waiting = Buffer.alloc(0);
for await (const chunk of process.stdin) {
  waiting = waiting.length ? Buffer.concat([waiting, chunk]) : chunk;
  let at = 0;
  for (;;) {
    const parts = four(waiting, at);
    if (!parts) break;
    at = parts.end;
    check(parts.list);
  }
  waiting = waiting.subarray(at);
}

let passed = 0;
for (const { name, cases, bytes, failures } of decoders) {
  const good = cases === expected && failures === 0 && waiting.length === 0;
  if (good) passed++;
  console.log(`${good ? "ok" : "not ok"} deltas: ${name}: ${cases} of ${expected} edits, ${bytes} bytes of deltas, ${failures} wrong`);
}
console.log(`deltas: ${passed} passed, ${decoders.length - passed} failed`);
process.exit(passed === decoders.length ? 0 : 1);

/** The next case, if it is there as a whole. */
function four(buffer, at) {
  const list = [];
  for (let part = 0; part < 4; part++) {
    if (buffer.length < at + 4) return undefined;
    const end = at + 4 + buffer.readUInt32LE(at);
    if (buffer.length < end) return undefined;
    list.push(buffer.subarray(at + 4, end));
    at = end;
  }
  return { list, end: at };
}

function check([old, value, ...deltas]) {
  decoders.forEach((decoder, index) => {
    decoder.cases++;
    decoder.bytes += deltas[index].length;
    let wrong;
    try {
      const made = Buffer.from(decoder.apply(new Uint8Array(old), new Uint8Array(deltas[index])));
      if (!made.equals(value)) wrong = `${made.length} bytes instead of ${value.length}`;
    } catch (error) {
      wrong = error.stack;
    }
    if (wrong && decoder.failures++ === 0) console.log(`${decoder.name}, case ${decoder.cases}: ${wrong}`);
  });
}
