/**
 * The last half minute of the connection: messages by the moment they were published, not by that of
 * their arrival. So what is recovered after a loss fills the hole that the loss has left.
 */
import { begin, by, colour } from "./dom.js";

const SPAN_MS = 30_000;
const SLOT_MS = 250;

interface Slot {
  live: number;
  recovered: number;
}

export class Tape {
  private readonly canvas = by<HTMLCanvasElement>("tape");
  private slots = new Map<number, Slot>();
  private absences: { from: number; to: number | undefined }[] = [];

  take(published: number, recovered: boolean): void {
    const key = Math.floor(published / SLOT_MS);
    let slot = this.slots.get(key);
    if (!slot) this.slots.set(key, (slot = { live: 0, recovered: 0 }));
    slot[recovered ? "recovered" : "live"]++;
  }

  lost(now: number): void {
    if (this.absences.at(-1)?.to !== undefined || !this.absences.length) this.absences.push({ from: now, to: undefined });
  }

  back(now: number): void {
    const last = this.absences.at(-1);
    if (last) last.to ??= now;
  }

  draw(now: number): void {
    const { pen, width, height } = begin(this.canvas);
    const from = now - SPAN_MS;
    const x = (time: number) => ((time - from) / SPAN_MS) * width;
    const floor = height - 16;
    this.absences = this.absences.filter(({ to }) => to === undefined || to > from);
    for (const { from: began, to = now } of this.absences) {
      const left = Math.max(0, x(began));
      pen.fillStyle = colour("away");
      pen.globalAlpha = 0.45;
      pen.fillRect(left, 0, Math.max(2, x(to) - left), floor);
      pen.globalAlpha = 1;
    }
    const most = this.most(from);
    const step = (SLOT_MS / SPAN_MS) * width;
    for (const [key, { live, recovered }] of this.slots) {
      const left = x(key * SLOT_MS);
      const full = (live / most) * (floor - 6);
      const extra = (recovered / most) * (floor - 6);
      pen.fillStyle = colour("accent");
      pen.fillRect(left, floor - full, step - 1, full);
      pen.fillStyle = colour("recovered");
      pen.fillRect(left, floor - full - extra, step - 1, extra);
    }
    this.axis(pen, width, height, floor);
  }

  /** The highest bar in sight; older ones are forgotten. */
  private most(from: number): number {
    let most = 4;
    for (const [key, { live, recovered }] of this.slots) {
      if ((key + 1) * SLOT_MS < from) this.slots.delete(key);
      else most = Math.max(most, live + recovered);
    }
    return most;
  }

  private axis(pen: CanvasRenderingContext2D, width: number, height: number, floor: number): void {
    pen.fillStyle = colour("edge");
    pen.fillRect(0, floor, width, 1);
    pen.fillStyle = colour("faint");
    pen.font = "11px system-ui, sans-serif";
    for (const seconds of [30, 20, 10, 0]) {
      const at = width - (seconds / 30) * width;
      pen.textAlign = seconds === 30 ? "left" : seconds ? "center" : "right";
      pen.fillText(seconds ? `−${seconds} s` : "now", at, height - 3);
    }
  }
}
