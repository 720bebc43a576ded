// Builds dist/, which the server embeds; the client is a file of its own beside it.
//
//   node console/live/build.mjs           writes dist/
//   node console/live/build.mjs --check   says whether dist/ is what the sources give
//
// The tools are those of clients/typescript: run `npm ci` there first.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const client = join(here, "../../clients/typescript");
const tools = createRequire(join(client, "package.json"));
const { build } = tools("esbuild");
const check = process.argv.includes("--check");
const out = check ? mkdtempSync(join(tmpdir(), "tiderace-live-")) : join(here, "dist");

execFileSync(process.execPath, [tools.resolve("typescript/bin/tsc"), "--project", here], { stdio: "inherit" });
mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: ["src/main.ts"],
  outfile: join(out, "live.js"),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  plugins: [
    {
      name: "the client as it is served",
      setup(build) {
        build.onResolve({ filter: /^tiderace$/ }, () => ({ path: "./tiderace.min.js", external: true }));
      },
    },
  ],
});
await build({ absWorkingDir: here, entryPoints: ["src/live.css"], outfile: join(out, "live.css"), minify: true });
for (const name of ["index.html", "live.svg"]) copyFileSync(join(here, "src", name), join(out, name));

if (check) {
  const same = readdirSync(out).every((name) => readFileSync(join(out, name), "utf8") === readFileSync(join(here, "dist", name), "utf8"));
  rmSync(out, { recursive: true });
  if (!same) console.log("console/live/dist is not what the sources give; run: node console/live/build.mjs");
  process.exitCode = same ? 0 : 1;
}
