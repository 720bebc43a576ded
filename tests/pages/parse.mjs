// What a page tells its reader to do, step by step.
//
// A block of code is one of these, or the page is wrong:
//   * a file: the line before it ends in "`NAME`:"
//   * commands: its language is `sh`
//   * what the commands before it print: its language is `text`; "…" stands for anything
//   * none of these, said by a comment before it
// Comments before a block, which readers do not see:
//   <!-- server by COMMAND -->         the same by another command, where what the page says would take a build
//   <!-- terminals -->                 each line has a terminal of its own, by whose number it is called if it goes on
//   <!-- server -->                    the commands start the server, which goes on; one that runs already is stopped first
//   <!-- background NAME -->           they go on; the page goes on when there is one subscription more
//   <!-- background NAME until TEXT -->                          ... when they have printed that
//   <!-- output of NAME -->            the `text` is what such commands print, sooner or later, after what was compared before
//   <!-- exit 3 -->                    the commands end with that status
//   <!-- not run: WHY -->              the block is only read
// And without a block:
//   <!-- end NAME -->                  Ctrl-C for what goes on in the background
//   <!-- browser URL shows TEXT -->    the page at that address shows that text

const COMMENT = /^<!-- (.*) -->$/;
const FILE = /`([^`\s]+)`:$/;
const KINDS = [
  [/^server(?: by (.*))?$/, ([, by]) => ({ kind: "server", by })],
  [/^terminals$/, () => ({ kind: "terminals" })],
  [/^background (\S+)(?: until (.*))?$/, ([, name, until]) => ({ kind: "background", name, until })],
  [/^output of (\S+)$/, ([, name]) => ({ kind: "later", name })],
  [/^exit (\d+)$/, ([, status]) => ({ kind: "run", status: Number(status) })],
  [/^not run: (.+)$/, () => ({ kind: "skip" })],
  [/^end (\S+)$/, ([, name]) => ({ kind: "end", name })],
  [/^browser (\S+) shows (.*)$/, ([, url, text]) => ({ kind: "browser", url, text })],
];

/** The steps of a page, each with the number of its line. */
export function steps(page) {
  const found = [];
  let said;
  let before = "";
  let block;
  for (const [index, line] of page.split("\n").entries()) {
    const fence = /^```(\w*)$/.exec(line);
    if (block) {
      if (!fence) block.lines.push(line);
      else {
        found.push(step(block, said, before, found.at(-1)));
        [block, said, before] = [undefined, undefined, ""];
      }
    } else if (fence) {
      block = { language: fence[1], line: index + 1, lines: [] };
    } else if (COMMENT.test(line)) {
      said = told(line, index + 1);
      if (said.kind === "browser" || said.kind === "end") found.push(said), (said = undefined);
    } else if (line.trim()) {
      before = line.trimEnd();
    }
  }
  return found.filter(({ kind }) => kind !== "skip");
}

function told(line, number) {
  const [, text] = COMMENT.exec(line);
  for (const [pattern, make] of KINDS) {
    const match = pattern.exec(text);
    if (match) return { ...make(match), line: number };
  }
  throw new Error(`line ${number}: nobody knows what "${text}" means`);
}

function step({ language, line, lines }, said, before, last) {
  const text = lines.map((one) => `${one}\n`).join("");
  if (said?.kind === "skip") return said;
  const name = FILE.exec(before)?.[1];
  if (name && !said) return { kind: "file", name, text, line };
  if (language === "sh") return { kind: "run", status: 0, ...said, text, line };
  if (language === "text" && said?.kind === "later") return { ...said, text, line };
  // Right behind the commands: what they print. The comparison is theirs.
  if (language === "text" && last?.kind === "run" && !said && !last.prints) {
    last.prints = text;
    return { kind: "skip" };
  }
  throw new Error(`line ${line}: this block is no file, no commands and no output; say what it is, or that it is not run`);
}
