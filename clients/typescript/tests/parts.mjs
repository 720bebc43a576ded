// What both ways of running the suite need.
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

export const here = dirname(fileURLToPath(import.meta.url));
export const root = join(here, "../../..");
/** Where the package `ws` is found, as in an application that has installed it. */
const output = join(here, "../node_modules/.suite");

/** Bundles the suite; gives its address. */
export async function suite(name) {
  mkdirSync(output, { recursive: true });
  const outfile = join(output, `suite-${name}.mjs`);
  await build({
    absWorkingDir: here,
    entryPoints: ["suite/index.ts"],
    outfile,
    bundle: true,
    format: "esm",
    target: "es2022",
    sourcemap: "inline",
  });
  return pathToFileURL(outfile).href;
}

/** The protocol's examples. */
export function vectors() {
  const read = (name) => JSON.parse(readFileSync(join(root, "protocols/native/tests/vectors", name), "utf8"));
  return { messages: read("messages.json"), deltas: read("deltas.json") };
}

export function groups(target) {
  const wanted = process.argv.slice(2);
  if (wanted.length) return wanted;
  return ["pieces", "addresses", "topics", "connection", "queues", "services", ...(target ? ["real"] : [])];
}
