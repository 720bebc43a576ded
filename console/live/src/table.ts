/** The table of quotes: rows are made once and change in place, at most once a frame. */
import { begin, by, colour, make } from "./dom.js";
import type { Quote } from "./quotes.js";

/** As many rows as a glance takes in; the mosaic shows the others. */
export const ROWS_MAX = 18;
/** Points of a trend. */
const TREND_MAX = 60;

interface Row {
  bid: HTMLElement;
  offer: HTMLElement;
  spread: HTMLElement;
  today: HTMLElement;
  trend: HTMLCanvasElement;
  points: number[];
  shown: Quote | undefined;
  next: Quote | undefined;
}

export class Table {
  private rows = new Map<string, Row>();

  /** Shows these topics, and nothing of what was before. */
  reset(topics: readonly string[]): void {
    this.rows = new Map();
    by("rows").replaceChildren(
      ...topics.slice(0, ROWS_MAX).map((topic) => {
        const row = make("tr");
        const cell = (className = "") => row.appendChild(make("td", className));
        cell().textContent = topic.split("/").pop()!.replace("-", " / ");
        const bid = cell("number").appendChild(make("span", "price"));
        const offer = cell("number").appendChild(make("span", "price"));
        const spread = cell("number spread");
        const today = cell("number today");
        const trend = cell().appendChild(make("canvas"));
        trend.setAttribute("aria-hidden", "true");
        this.rows.set(topic, { bid, offer, spread, today, trend, points: [], shown: undefined, next: undefined });
        return row;
      }),
    );
  }

  take(topic: string, quote: Quote): void {
    const row = this.rows.get(topic);
    if (!row) return;
    row.next = quote;
    row.points.push((quote.bid + quote.offer) / 2);
    if (row.points.length > TREND_MAX) row.points.shift();
  }

  /** Shows what came since the last frame. */
  draw(everything: boolean): void {
    for (const row of this.rows.values()) {
      const { next, shown } = row;
      if (next) {
        show(row.bid, next.bid, shown?.bid);
        show(row.offer, next.offer, shown?.offer);
        // In pips: hundredths where a unit buys much, as of yen.
        row.spread.textContent = ((next.offer - next.bid) * (next.bid > 20 ? 100 : 10_000)).toFixed(1);
        const change = (next.bid + next.offer) / 2 / next.open - 1;
        const sign = change < 0 ? "−" : "+";
        row.today.textContent = `${sign}${Math.abs(change * 100).toFixed(3)} %`;
        row.today.className = `number today ${change < 0 ? "fall" : "rise"}`;
        row.shown = next;
        row.next = undefined;
      }
      if (next || everything) trend(row.trend, row.points);
    }
  }
}

/** The figures in three sizes, and a flash that fades. */
function show(cell: HTMLElement, price: number, before: number | undefined): void {
  if (price === before) return;
  const text = price.toFixed(5);
  const small = make("small", "", text.slice(0, -3));
  const big = make("b", "", text.slice(-3, -1));
  const tail = make("sup", "", text.slice(-1));
  cell.replaceChildren(small, big, tail);
  if (before === undefined) return;
  cell.classList.remove("up", "down");
  const direction = price > before ? "up" : "down";
  cell.classList.add(direction);
  // From the next frame on it fades, as the style sheet says.
  requestAnimationFrame(() => requestAnimationFrame(() => cell.classList.remove(direction)));
}

function trend(canvas: HTMLCanvasElement, points: readonly number[]): void {
  const { pen, width, height } = begin(canvas);
  if (points.length < 2) return;
  const low = Math.min(...points);
  const span = Math.max(...points) - low || 1;
  // A trend that is still short is stretched, up to a point.
  const step = (width - 4) / (Math.max(points.length, 12) - 1);
  const left = width - 2 - (points.length - 1) * step;
  const y = (value: number) => height - 3 - ((value - low) / span) * (height - 6);
  pen.beginPath();
  points.forEach((value, at) => pen.lineTo(left + at * step, y(value)));
  const last = points[points.length - 1]!;
  const hue = colour(last < points[0]! ? "down" : "up");
  pen.strokeStyle = hue;
  pen.lineWidth = 1.4;
  pen.lineJoin = "round";
  pen.stroke();
  pen.lineTo(width - 2, height);
  pen.lineTo(left, height);
  pen.globalAlpha = 0.12;
  pen.fillStyle = hue;
  pen.fill();
  pen.globalAlpha = 1;
  pen.beginPath();
  pen.arc(width - 2, y(last), 2, 0, 7);
  pen.fill();
}
