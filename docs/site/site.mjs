// What the site needs besides mdBook: pages whose links hold outside of the repository, and a look at every link of the result.
//
//   node docs/site/site.mjs pages REPOSITORY FOLDER      writes the book's sources
//   node docs/site/site.mjs links FOLDER                 looks at the built pages; the last line counts
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, posix, relative } from "node:path";

const REPOSITORY = "https://github.com/tiderace/tiderace";
const [what, ...places] = process.argv.slice(2);
({ pages, links })[what](...places);

/** Files below a folder whose names end so, in order. */
function files(folder, end) {
  return readdirSync(folder, { recursive: true }).map(String).filter((file) => file.endsWith(end)).sort();
}

function pages(root, out) {
  const docs = join(root, "docs");
  const all = files(docs, ".md");
  for (const file of all) {
    const text = readFileSync(join(docs, file), "utf8");
    mkdirSync(dirname(join(out, file)), { recursive: true });
    writeFileSync(join(out, file), file === "SUMMARY.md" ? summary(text, docs, all) : moved(text, file, root));
  }
}

/** The summary with the pages that it does not name: the reference, then decisions. */
function summary(text, docs, all) {
  const rest = all.filter((file) => file !== "SUMMARY.md" && !text.includes(`(${file})`));
  const title = (file) => /^# (.*)$/m.exec(readFileSync(join(docs, file), "utf8"))[1].replace(/[[\]]/g, "\\$&");
  const list = (files) => files.map((file) => `- [${title(file)}](${file})`).join("\n");
  const isDecision = (file) => file.startsWith("decisions/");
  const [decisions, reference] = [rest.filter(isDecision), rest.filter((file) => !isDecision(file))];
  return `${text}\n# Reference\n\n${list(reference)}\n\n# Decisions\n\n${list(decisions)}\n`;
}

/** A page whose links to what is no page of the book lead to the repository. */
function moved(text, file, root) {
  let fenced = false;
  const lines = text.split("\n").map((line) => {
    if (line.trimStart().startsWith("```")) fenced = !fenced;
    if (fenced) return line;
    return line.replace(/\]\(([^)\s]+)\)/g, (link, target) => {
      if (/^([a-z]+:|#)/.test(target)) return link;
      const [path, heading] = target.split("#");
      const full = posix.join("docs", posix.dirname(file), path);
      if (full.startsWith("docs/") && full.endsWith(".md")) return link;
      const kind = statSync(join(root, full)).isDirectory() ? "tree" : "blob";
      return `](${REPOSITORY}/${kind}/main/${full}${heading ? `#${heading}` : ""})`;
    });
  });
  return lines.join("\n");
}

function links(out) {
  const all = files(out, ".html").filter((file) => !/^(print|toc)\.html$/.test(file));
  const ids = new Map();
  const idsOf = (path) => {
    if (!ids.has(path)) ids.set(path, new Set([...readFileSync(path, "utf8").matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id)));
    return ids.get(path);
  };
  let [passed, failed] = [0, 0];
  for (const file of all) {
    const text = readFileSync(join(out, file), "utf8");
    for (const [, target] of text.matchAll(/<a [^>]*?href="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(target) || target === "") continue;
      const [path, heading] = target.split("#");
      const full = path ? join(out, dirname(file), decodeURIComponent(path)) : join(out, file);
      const there = existsSync(full) && (!heading || !full.endsWith(".html") || idsOf(full).has(decodeURIComponent(heading)));
      if (there) passed++;
      else console.log(`${relative(out, join(out, file))} links to ${target}, which is not there (${++failed})`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed || !passed ? 1 : 0);
}
