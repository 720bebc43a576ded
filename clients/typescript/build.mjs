// Builds dist/: the minified modules, the client and what works on it, with their sources' types beside them.
//
//   node build.mjs           writes dist/
//   node build.mjs --check   says whether dist/ is what the sources give, and whether it is small enough
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { privateNames } from "./private.mjs";

/** Each module: what it begins with, and bytes of gzip at most. */
const MODULES = {
  "tiderace.min.js": ["src/index.ts", 12.6 * 1024],
  "topics.min.js": ["src/manage.ts", 2 * 1024],
  "queues.min.js": ["src/administer.ts", 1024],
  "manage.min.js": ["src/management.ts", 2 * 1024],
};
const here = dirname(fileURLToPath(import.meta.url));
const check = process.argv.includes("--check");
const out = check ? mkdtempSync(join(tmpdir(), "tiderace-")) : join(here, "dist");

if (!check) rmSync(out, { recursive: true, force: true });
for (const [name, [entry]] of Object.entries(MODULES)) {
  await build({
    absWorkingDir: here,
    entryPoints: [entry],
    outfile: join(out, name),
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    legalComments: "none",
    mangleProps: privateNames(join(here, "tsconfig.json"), entry),
  });
}
execFileSync(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--outDir", out], {
  cwd: here,
  stdio: "inherit",
});

let good = true;
for (const [name, [, most]] of Object.entries(MODULES)) {
  const size = gzipSync(readFileSync(join(out, name)), { level: 9 }).length;
  console.log(`${name}: ${size} bytes gzip of at most ${most}`);
  good &&= size <= most;
}
if (check) {
  const known = join(here, "dist");
  const list = (folder) => readdirSync(folder, { recursive: true }).map(String).sort();
  const files = list(out);
  const fresh =
    files.join() === list(known).join() &&
    files.every((file) => !/\.(js|ts)$/.test(file) || readFileSync(join(out, file), "utf8") === readFileSync(join(known, file), "utf8"));
  if (!fresh) console.log("dist/ is not what the sources give; run: npm run build");
  good &&= fresh;
  rmSync(out, { recursive: true });
}
process.exitCode = good ? 0 : 1;
