// The live page in a headless Chromium, served by a real server in development mode: quotes move, a cut is followed
// by a resume without loss, the transport can be switched, nothing is wider than a phone.
//
//   TIDERACE_PAGE=http://127.0.0.1:7800 node console/live/test.mjs     the last line counts
//
// Screenshots go to live/ in the target folder.
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch } from "../../clients/typescript/tests/chromium.mjs";

const url = process.env.TIDERACE_PAGE ?? "http://127.0.0.1:7800";
const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const shots = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "live");
mkdirSync(shots, { recursive: true });
let passed = 0;
let failed = 0;

async function test(name, body) {
  try {
    await body();
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${name}\n    ${error.stack}`);
  }
}

function ok(found, what) {
  if (!found) throw new Error(what);
}

const browser = await launch();
const views = [
  { name: "wide dark", width: 1280, height: 900, colorScheme: "dark" },
  { name: "wide light", width: 1280, height: 900, colorScheme: "light" },
  { name: "phone", width: 360, height: 740, colorScheme: "light" },
];
for (const { name, width, height, colorScheme } of views) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "no-preference" });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("request", (request) => {
    if (new URL(request.url()).host !== new URL(url).host) complaints.push(`asked elsewhere: ${request.url()}`);
  });
  const text = (selector) => page.locator(selector).innerText();
  const until = (what, condition, argument) =>
    page.waitForFunction(condition, argument).catch(() => {
      throw new Error(`${what}: never`);
    });
  const shot = (what) => page.screenshot({ path: join(shots, `${name} ${what}.png`.replaceAll(" ", "-")), fullPage: true });
  const messages = () => page.evaluate(() => Number(document.getElementById("messages").textContent.replaceAll(",", "")));

  await test(`${name}: quotes come and move`, async () => {
    await page.goto(url);
    await until("rows", () => document.querySelectorAll("#rows tr").length >= 10);
    const before = await text("#rows");
    await until("a price that moves", (before) => document.getElementById("rows").innerText !== before, before);
    await until("latency", () => Number(document.getElementById("median").textContent) >= 0);
    await until("deltas", () => parseInt(document.getElementById("saved").textContent, 10) > 20);
    ok((await page.locator("#state").getAttribute("data-status")) === "connected", "not connected");
  });
  await test(`${name}: a cut is followed by a resume that misses nothing`, async () => {
    await page.click("#cut");
    await until("the cut", () => document.getElementById("state").dataset.status === "waiting");
    await until("the resume", () => /resumed after .*messages recovered, none lost/.test(document.getElementById("story").innerText));
    await until("something recovered", () => Number(document.getElementById("recovered").textContent) > 0);
    ok((await text("#gaps")) === "0", `${await text("#gaps")} gaps`);
    await shot("resumed");
  });
  await test(`${name}: long polling does the same`, async () => {
    await page.locator("#transport span", { hasText: "Long polling" }).click();
    await until("polling", () => /long polling/.test(document.getElementById("state").innerText));
    const before = await messages();
    await until("messages", (before) => Number(document.getElementById("messages").textContent.replaceAll(",", "")) > before + 20, before);
    await page.click("#cut");
    await until("the resume", () => document.getElementById("story").innerText.split("none lost").length >= 3);
    ok((await text("#gaps")) === "0", `${await text("#gaps")} gaps`);
    await page.locator("#transport span", { hasText: "WebSocket" }).click();
    await until("WebSocket", () => /WebSocket/.test(document.getElementById("state").innerText));
  });
  await test(`${name}: a thousand topics, whole values`, async () => {
    await page.locator("#topics span", { hasText: "1,000" }).click();
    await page.locator("#deltas span", { hasText: "Whole" }).click();
    const before = await messages();
    await until("messages", (before) => Number(document.getElementById("messages").textContent.replaceAll(",", "")) > before + 2500, before);
    await shot("thousand");
    await page.locator("#topics span", { hasText: /^10$/ }).click();
    await until("ten rows", () => document.querySelectorAll("#rows tr").length === 10);
  });
  await test(`${name}: snippets, theme, keyboard`, async () => {
    for (const tab of await page.getByRole("tab").all()) {
      await tab.click();
      ok((await page.locator("#snippet pre").innerText()).includes(new URL(url).host.split(":")[0]), "a snippet without the server");
    }
    const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.click("#theme");
    ok((await page.evaluate(() => getComputedStyle(document.body).backgroundColor)) !== before, "the theme did not change");
    await page.locator("#topics input").first().focus();
    await page.keyboard.press("ArrowRight");
    await until("fifty topics", () => document.getElementById("shown").textContent.includes("50"));
  });
  await test(`${name}: nothing sticks out, nothing complains`, async () => {
    const sticking = await page.evaluate(() => {
      const wide = document.documentElement.clientWidth;
      if (document.documentElement.scrollWidth > wide) return "the page scrolls sideways";
      const cards = [...document.querySelectorAll(".card")];
      const table = document.querySelector("table").getBoundingClientRect();
      const card = cards[0].getBoundingClientRect();
      return table.right > card.right || table.left < card.left ? "the table leaves its card" : "";
    });
    ok(!sticking, sticking);
    ok(!complaints.length, complaints.join("\n"));
    await shot("end");
  });
  await context.close();
}
await browser.close();
console.log(`page: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
