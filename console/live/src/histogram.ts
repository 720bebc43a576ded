/** How many messages took how long, as bars. */
import { begin, by, colour } from "./dom.js";
import { BOUNDS, histogram } from "./meter.js";

export function drawHistogram(values: readonly number[]): void {
  const { pen, width, height } = begin(by<HTMLCanvasElement>("histogram"));
  const bars = histogram(values);
  const most = Math.max(...bars, 1);
  const floor = height - 18;
  const step = width / bars.length;
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "center";
  bars.forEach((count, at) => {
    const high = count ? Math.max(2, (count / most) * (floor - 16)) : 0;
    pen.fillStyle = colour("edge");
    pen.fillRect(at * step + 1, floor, step - 2, 2);
    pen.fillStyle = colour("accent");
    pen.globalAlpha = 0.55 + 0.45 * (count / most);
    pen.beginPath();
    pen.roundRect(at * step + 1, floor - high, step - 2, high, [3, 3, 0, 0]);
    pen.fill();
    pen.globalAlpha = 1;
    if (at % 2 || width > 420) {
      pen.fillStyle = colour("faint");
      pen.fillText(label(at), (at + 0.5) * step, height - 3);
    }
    if (count === most && count) {
      pen.fillStyle = colour("soft");
      pen.fillText(`${Math.round((count / values.length) * 100)} %`, (at + 0.5) * step, floor - high - 4);
    }
  });
}

function label(bar: number): string {
  const bound = BOUNDS[bar];
  if (bound === undefined) return "more";
  return `<${bound}`;
}
