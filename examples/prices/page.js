import { connect } from "/tiderace.min.js";
import { element, frame } from "/shared/page.js";
import { board, saved } from "./board.js";

const by = (id) => document.getElementById(id);
const number = new Intl.NumberFormat();
const ARROWS = { "-1": "▼", 0: "", 1: "▲" };
const client = connect(undefined, { name: "prices example" });
frame(client);

let shown;
let tiles = new Map();
let before = { ...client.counts, at: performance.now() };

function choose() {
  void shown?.stop();
  tiles = new Map();
  by("board").replaceChildren();
  before = { ...client.counts, at: performance.now() };
  const options = { deltas: by("deltas").checked, schedule: requestAnimationFrame, changed: draw };
  shown = board(client, by("filter").value, options);
}

function draw(quotes) {
  for (const { pair, bid, ask, move } of quotes) {
    let tile = tiles.get(pair);
    if (bid === undefined) {
      tile?.remove();
      tiles.delete(pair);
      continue;
    }
    if (!tile) {
      tile = element("li", {}, element("small", {}, pair), element("b"), element("small"));
      tiles.set(pair, tile);
      // In the order of their names, wherever they come in between.
      const next = [...by("board").children].find((other) => other.firstChild.textContent > pair);
      by("board").insertBefore(tile, next ?? null);
    }
    tile.dataset.move = move;
    tile.children[1].textContent = `${bid} ${ARROWS[move]}`;
    tile.children[2].textContent = `ask ${ask}`;
  }
  by("pairs").textContent = number.format(tiles.size);
}

setInterval(() => {
  const now = { ...client.counts, at: performance.now() };
  const seconds = (now.at - before.at) / 1000;
  by("rate").textContent = number.format(Math.round((now.updates - before.updates) / seconds));
  by("bytes").textContent = number.format(Math.round((now.bytesReceived - before.bytesReceived) / seconds));
  by("saved").textContent = `${Math.round(saved(before, now) * 100)} %`;
  before = now;
}, 1000);
by("choices").addEventListener("change", choose);
choose();
