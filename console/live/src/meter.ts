/** Rates and latencies of the last seconds. */

/** A ring of samples with the moments they were taken. */
export class Recent {
  private samples: { at: number; value: number }[] = [];

  constructor(private readonly spanMs: number) {}

  add(at: number, value: number): void {
    this.samples.push({ at, value });
  }

  values(now: number): number[] {
    const first = this.samples.findIndex(({ at }) => at > now - this.spanMs);
    if (first < 0) this.samples = [];
    else if (first > 0) this.samples.splice(0, first);
    return this.samples.map(({ value }) => value);
  }

  clear(): void {
    this.samples = [];
  }
}

/** The value below which that share of the sorted values lies. */
export function percentile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** Upper bounds of the histogram's bars, in ms; the last bar has none. */
export const BOUNDS = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500];

export function histogram(values: readonly number[]): number[] {
  const bars = new Array<number>(BOUNDS.length + 1).fill(0);
  for (const value of values) {
    const at = BOUNDS.findIndex((bound) => value < bound);
    bars[at < 0 ? BOUNDS.length : at]!++;
  }
  return bars;
}

export const milliseconds = (value: number | undefined): string =>
  value === undefined ? "–" : value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
