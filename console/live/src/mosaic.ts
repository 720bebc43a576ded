/** All topics at a glance: a cell each, lit in the colour of its last move and fading. */
import { begin, by, colour } from "./dom.js";

const FADE_MS = 2000;

interface Cell {
  price: number;
  up: boolean;
  at: number;
}

export class Mosaic {
  private readonly canvas = by<HTMLCanvasElement>("mosaic");
  private cells = new Map<string, Cell>();

  reset(topics: readonly string[]): void {
    this.cells = new Map(topics.map((topic) => [topic, { price: 0, up: true, at: -FADE_MS }]));
  }

  take(topic: string, price: number, now: number): void {
    const cell = this.cells.get(topic);
    if (!cell) return;
    if (cell.price && price !== cell.price) {
      cell.up = price > cell.price;
      cell.at = now;
    }
    cell.price = price;
  }

  draw(now: number): void {
    const count = this.cells.size || 1;
    const gap = count > 300 ? 2 : 3;
    const wide = this.canvas.clientWidth;
    // Cells are a little wider than high, and no larger than is good to look at.
    const columns = Math.max(5, Math.min(count, Math.ceil(Math.sqrt(count * (wide / (count > 300 ? 150 : 110))))));
    const side = (wide + gap) / columns - gap;
    const high = Math.max(7, Math.min(22, side * 0.75));
    const rows = Math.ceil(count / columns);
    const height = `${Math.round(rows * (high + gap) - gap)}px`;
    if (this.canvas.style.height !== height) this.canvas.style.height = height;
    const { pen } = begin(this.canvas);
    const [rest, up, down] = [colour("edge"), colour("up"), colour("down")];
    let at = 0;
    for (const cell of this.cells.values()) {
      const x = (at % columns) * (side + gap);
      const y = Math.floor(at++ / columns) * (high + gap);
      const light = 1 - (now - cell.at) / FADE_MS;
      pen.globalAlpha = 0.75;
      pen.fillStyle = rest;
      square(pen, x, y, side, high);
      if (light <= 0) continue;
      pen.globalAlpha = 0.12 + 0.88 * light * light;
      pen.fillStyle = cell.up ? up : down;
      square(pen, x, y, side, high);
    }
    pen.globalAlpha = 1;
  }
}

function square(pen: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  pen.beginPath();
  pen.roundRect(x, y, width, height, Math.min(3, height / 3));
  pen.fill();
}
