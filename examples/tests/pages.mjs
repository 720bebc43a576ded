// The pages of the example applications in a headless Chromium: light, dark and on a phone.
//
//   node examples/tests/pages.mjs PROGRAM FOLDER      the program `tiderace`, and where screenshots go; the last line counts
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { launch } from "../../clients/typescript/tests/chromium.mjs";
import { equal, finish, ok, start, test } from "./harness.mjs";

const tools = createRequire(new URL("../../clients/typescript/package.json", import.meta.url));
const axe = readFileSync(tools.resolve("axe-core/axe.min.js"), "utf8");
const [program, shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });
const browser = await launch();
const views = [
  { name: "light", width: 1280, height: 860, colorScheme: "light" },
  { name: "dark", width: 1280, height: 860, colorScheme: "dark" },
  { name: "phone", width: 360, height: 740, colorScheme: "light" },
];

/** Opens a page, lets it do something, and looks for what no page may have. */
async function open({ context, url }, path, name, body) {
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("request", (request) => {
    if (new URL(request.url()).host !== new URL(url).host) complaints.push(`asked elsewhere: ${request.url()}`);
  });
  await page.goto(`${url}${path}`);
  const until = (what, condition, argument) =>
    page.waitForFunction(condition, argument).catch(() => {
      throw new Error(`${what}: never; ${complaints.join("\n")}`);
    });
  await body(page, until);
  await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
  ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), "it scrolls sideways");
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("\n")}`);
  equal(found, [], "axe");
  equal(complaints, [], "complaints");
  return page;
}

const connected = () => document.getElementById("state").dataset.status === "connected";

async function look({ name, width, height, colorScheme }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme });
  // A server for each, which nobody has left anything in.
  const place = { context, url: await start(program) };
  await test(`${name}: the list of examples leads to each`, async () => {
    const page = await open(place, "/", `index-${name}`, async () => {});
    equal(await page.locator("h2 a").evaluateAll((all) => all.map(({ pathname }) => pathname)), ["/chat/", "/prices/", "/jobs/"], "links");
    await page.close();
  });
  await test(`${name}: two people in the chat`, async () => {
    const enter = (who) => async (page, until) => {
      await page.fill("#name", who);
      await page.keyboard.press("Enter");
      await until("connected", connected);
      await until("being there", (who) => document.getElementById("people").innerText.includes(who), who);
    };
    const room = `/chat/#${name}`;
    const bob = await open(place, room, `chat-${name}-alone`, enter("Bob"));
    await open(place, room, `chat-${name}`, async (page, until) => {
      await enter("Ann")(page, until);
      for (const text of ["Hello, is anybody here?", "<script>alert(1)</script>"]) {
        await page.fill("#text", text);
        await page.keyboard.press("Enter");
      }
      await bob.waitForFunction(() => document.querySelectorAll("#messages li").length === 2);
      await bob.fill("#text", "I am, and what you say arrives as you have written it.");
      await bob.click("#say button");
      await until("the answer", () => document.querySelectorAll("#messages li").length === 3);
      ok((await page.locator("#messages").innerText()).includes("<script>"), "texts are texts");
      equal(await page.locator("#people li").allInnerTexts(), ["Ann", "Bob"], "people");
      await bob.close();
      await until("Bob's leave", () => document.querySelectorAll("#people li").length === 1);
    });
  });
  await test(`${name}: prices move`, async () => {
    const page = await open(place, "/prices/", `prices-${name}`, async (page, until) => {
      await until("prices", () => document.querySelectorAll("#board li").length > 5);
      await until("a move", () => document.querySelector('#board [data-move="1"], #board [data-move="-1"]'));
      await until("savings", () => parseInt(document.getElementById("saved").textContent, 10) > 30);
    });
    await page.uncheck("#deltas");
    await page.waitForFunction(() => document.getElementById("saved").textContent === "0 %" && Number(document.getElementById("rate").textContent) > 0);
    await page.selectOption("#filter", "demo/fx/*-USD");
    await page.waitForFunction(() => [...document.querySelectorAll("#board li")].every((tile) => tile.innerText.includes("-USD")));
    const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.click("#theme");
    ok((await page.evaluate(() => getComputedStyle(document.body).backgroundColor)) !== before, "the theme did not change");
    await page.close();
  });
  await test(`${name}: jobs are done, and one is a dead letter`, async () => {
    const page = await open(place, "/jobs/", `jobs-${name}`, async (page, until) => {
      await until("connected", connected);
      await page.click("text=Add ten");
      await page.click("text=Add one that fails");
      await until("ten done", () => [...document.querySelectorAll("#jobs .good")].length >= 10);
      await until("a dead letter", () => Number(document.getElementById("dead").textContent) === 1);
    });
    await page.click("#again");
    await page.waitForFunction(() => document.getElementById("dead").textContent === "0");
    await page.waitForFunction(() => document.getElementById("dead").textContent === "1");
    await page.click("text=Cut off >> nth=0");
    await page.click("text=Start a worker");
    await page.click("text=Add a job");
    await page.waitForFunction(() => [...document.querySelectorAll("#jobs .good")].length >= 11);
    await page.close();
  });
  await context.close();
}

await Promise.all(views.map(look));
await browser.close();
finish("pages");
