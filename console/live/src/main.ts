/** The live page: one client of the SDK, and what it does and receives made visible. */
import { connect, type Gap, type State, type Subscription, type Update } from "tiderace";
import { by, bytes, make, number } from "./dom.js";
import { drawHistogram } from "./histogram.js";
import { milliseconds, percentile, Recent } from "./meter.js";
import { Mosaic } from "./mosaic.js";
import { discover, type Message, read } from "./quotes.js";
import { showSnippets } from "./snippets.js";
import { Story } from "./story.js";
import { ROWS_MAX, Table } from "./table.js";
import { Tape } from "./tape.js";
import { followTheme } from "./theme.js";

const client = connect(undefined, { name: "live page" });
const table = new Table();
const mosaic = new Mosaic();
const tape = new Tape();
const story = new Story();
const latencies = new Recent(10_000);
const arrivals = new Recent(2_000);

let all: string[] = [];
let subscriptions: Subscription<Message>[] = [];
/** Topics whose first value, which may be old, has come. */
let begun = new Set<string>();
let recovered = 0;
let everything = true;
/** The visitor has asked to be cut off for a while. */
let away = false;

/** The present absence, from the loss to the end of catching up. */
interface Absence {
  lostAt: number;
  backAt: number;
  /** Messages that came afterwards. */
  count: number;
  complete: boolean;
  /** Subscriptions that have not said whether anything is missing. */
  open: number;
}
let absence: Absence | undefined;

/** Milliseconds since 1970, finer than the clock on the wall and never far from it. */
let origin = performance.timeOrigin;
function wall(): number {
  const drift = Date.now() - (origin + performance.now());
  if (Math.abs(drift) > 20) origin += drift;
  return origin + performance.now();
}

function take(update: Update<Message>): void {
  const quote = read(update.value);
  if (!quote) return;
  const now = wall();
  arrivals.add(now, 1);
  table.take(update.topic, quote);
  mosaic.take(update.topic, (quote.bid + quote.offer) / 2, performance.now());
  if (!begun.has(update.topic)) {
    begun.add(update.topic);
    return;
  }
  const late = !!absence && quote.time >= absence.lostAt - 50 && quote.time < absence.backAt;
  if (late) {
    recovered++;
    absence!.count++;
  } else {
    latencies.add(now, Math.max(0, now - quote.time));
  }
  tape.take(quote.time, late);
}

function subscribe(): void {
  for (const subscription of subscriptions) void subscription.unsubscribe();
  giveUp();
  const count = Number(chosen("topics"));
  const topics = all.slice(0, count);
  begun = new Set();
  table.reset(topics);
  mosaic.reset(topics);
  latencies.clear();
  const rest = topics.length - ROWS_MAX;
  by("shown").textContent = rest > 0 ? `${ROWS_MAX} of ${number(topics.length)}` : "";
  const deltas = chosen("deltas") === "on";
  subscriptions = topics.map((path) => {
    const subscription = client.topic<Message>(path).subscribe((_, update) => take(update), { deltas });
    subscription.on("recovered", ({ complete }) => caughtUp(complete));
    subscription.on("gap", told);
    return subscription;
  });
}

/** Gaps told since the last line about them: a restart of the server is one for each subscription. */
let gaps: Gap[] = [];
function told(gap: Gap): void {
  if (gaps.push(gap) > 1) return;
  setTimeout(() => {
    const missed = gaps.reduce((sum, { missed }) => sum + (missed ?? 0), 0);
    const restarted = gaps.some(({ reason }) => reason === "restarted");
    const what = missed ? `${number(missed)} messages were left out` : "some messages were lost";
    if (restarted) giveUp();
    story.tell(restarted ? "the server has begun anew: what it said meanwhile is lost" : what, "lost");
    gaps = [];
  }, 250);
}

// The connection.

function changed(state: State): void {
  const pill = by("state");
  pill.dataset["status"] = state.status;
  const name = (transport: string) => (transport === "polling" ? "long polling" : "WebSocket");
  const now = wall();
  switch (state.status) {
    case "connecting":
      pill.textContent = "Connecting…";
      break;
    case "connected":
      pill.replaceChildren(make("span", "wide", "Connected by"), name(state.transport));
      tape.back(now);
      if (absence) {
        absence.backAt = now;
        absence.open = subscriptions.length;
        const seconds = ((now - absence.lostAt) / 1000).toFixed(1);
        story.tell(`connected again after ${seconds} s, catching up…`, "wait");
      } else story.tell(`connected by ${name(state.transport)} to ${state.server}`, "good");
      break;
    case "waiting":
      pill.textContent = state.delay === Infinity ? "Away" : "Waiting to reconnect";
      tape.lost(now);
      absence ??= { lostAt: now, backAt: Infinity, count: 0, complete: true, open: 0 };
      if (!away && state.attempt <= 1) story.tell(`lost; trying again in ${(state.delay / 1000).toFixed(1)} s`, "lost");
      break;
    case "closed":
      pill.textContent = "Closed";
      tape.lost(now);
      story.tell(`closed: ${state.reason.message}`, "lost");
  }
}

/** There is nothing to wait for any more after an absence. */
function giveUp(): void {
  absence = undefined;
  by("cut").removeAttribute("disabled");
}

/** One of the subscriptions knows whether anything is missing. */
function caughtUp(complete: boolean): void {
  if (!absence) return;
  absence.complete &&= complete;
  if (--absence.open > 0) return;
  settle(absence, -1);
}

/** Tells the end when nothing more of what was missed has come for a moment. */
function settle(ended: Absence, before: number): void {
  if (absence !== ended) return;
  const { count: now } = ended;
  if (now !== before) return void setTimeout(() => settle(ended, now), 300);
  giveUp();
  const seconds = ((ended.backAt - ended.lostAt) / 1000).toFixed(1);
  const count = number(ended.count);
  const text = ended.complete ? `${count} missed messages recovered, none lost` : `${count} recovered, not complete`;
  story.tell(`resumed after ${seconds} s: ${text}`, ended.complete ? "good" : "lost", true);
}

function cut(): void {
  const seconds = Number(by<HTMLSelectElement>("away").value);
  away = seconds > 0;
  by("cut").setAttribute("disabled", "");
  story.tell(seconds ? `cut off for ${seconds} s` : "cut off", "lost");
  client.cut();
  if (!seconds) return;
  client.pause();
  setTimeout(() => {
    away = false;
    client.resume();
  }, seconds * 1000);
}

// What is shown.

const chosen = (name: string) => new FormData(by<HTMLFormElement>("controls")).get(name) as string;

/** Totals of some seconds ago: first values, which cannot be deltas, should not count for ever. */
const totals: { at: number; whole: number; saved: number }[] = [];
function window(now: number, whole: number, saved: number): [number, number] {
  totals.push({ at: now, whole, saved });
  while (totals.length > 2 && totals[1]!.at < now - 10_000) totals.shift();
  return [totals[0]!.whole, totals[0]!.saved];
}

function figures(): void {
  const now = wall();
  const values = latencies.values(now).sort((a, b) => a - b);
  by("rate").textContent = number(Math.round(arrivals.values(now).length / 2));
  by("median").textContent = milliseconds(percentile(values, 0.5));
  by("p99").textContent = milliseconds(percentile(values, 0.99));
  const { counts } = client;
  const whole = counts.bytesReceived + counts.deltaBytesSaved;
  const share = whole ? counts.deltaBytesSaved / whole : 0;
  const [wholeBefore, savedBefore] = window(now, whole, counts.deltaBytesSaved);
  const recently = whole - wholeBefore;
  by("saved").textContent = recently ? `${Math.round(((counts.deltaBytesSaved - savedBefore) / recently) * 100)} %` : "–";
  by("received").textContent = bytes(counts.bytesReceived);
  by("whole").textContent = bytes(whole);
  by("messages").textContent = number(counts.updates);
  by("recovered").textContent = number(recovered);
  by("gaps").textContent = number(counts.gaps);
  by("meter").style.transform = `scaleX(${1 - share})`;
  drawHistogram(values);
}

function frame(): void {
  table.draw(everything);
  everything = false;
  mosaic.draw(performance.now());
  tape.draw(wall());
  requestAnimationFrame(frame);
}

followTheme(() => {
  everything = true;
  figures();
});
showSnippets();
client.on("state", changed);
by("cut").addEventListener("click", cut);
by("controls").addEventListener("change", ({ target }) => {
  if ((target as HTMLInputElement).name !== "transport") return subscribe();
  client.use(chosen("transport") === "polling" ? ["polling"] : ["websocket", "polling"]);
});
addEventListener("resize", () => (everything = true));
setInterval(figures, 500);
frame();
all = await discover();
subscribe();
