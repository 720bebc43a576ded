/** A list of tests that runs in Node and in pages alike. */

export interface Fakes {
  create(options?: object): Promise<{ id: number; url: string }>;
  next(id: number): Promise<FakeEvent>;
  send(id: number, link: number, hex: string): Promise<void>;
  text(id: number, link: number, packet: string): Promise<void>;
  cut(id: number, link: number): Promise<void>;
  configure(id: number, options: object): Promise<void>;
  destroy(id: number): Promise<void>;
}

export interface FakeEvent {
  kind: "open" | "message" | "packet" | "closed" | "too large";
  link: number;
  hex?: string;
  text?: string;
  transport?: string;
}

export interface Proxies {
  create(target: string): Promise<{ id: number; url: string }>;
  cut(id: number, down?: boolean): Promise<void>;
  up(id: number): Promise<void>;
  silence(id: number): Promise<void>;
  polled(id: number, name: string): Promise<void>;
  destroy(id: number): Promise<void>;
}

/** Where the suite runs, and what it may use there. */
export interface Place {
  fakes: Fakes;
  proxies: Proxies;
  vectors: { messages: Vector[]; deltas: DeltaVector[] };
  /** A way to the real server, if there is one. */
  real?: { id: number; url: string } | undefined;
  /** Only tests whose group is one of these. */
  groups: string[];
}

export interface Vector {
  name: string;
  from: string;
  type: string;
  hex: string;
  fields: Record<string, unknown>;
}

export interface DeltaVector {
  name: string;
  old: string;
  new: string;
  delta: string;
}

type Body = (place: Place, after: (task: () => unknown) => void) => unknown;
const tests: { group: string; name: string; body: Body }[] = [];

export function test(group: string, name: string, body: Body): void {
  tests.push({ group, name, body });
}

/** Bounds failure only: on a busy machine a test of a hundred round trips takes a quarter of a minute. */
const TIMEOUT_MS = 120_000;

export async function run(place: Place, print: (line: string) => void): Promise<[number, number]> {
  let passed = 0;
  let failed = 0;
  for (const { group, name, body } of tests.filter(({ group }) => place.groups.includes(group))) {
    const tasks: (() => unknown)[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("the test has not ended in time")), TIMEOUT_MS);
    });
    try {
      await Promise.race([body(place, (task) => tasks.unshift(task)), late]);
      passed++;
      print(`ok ${group}: ${name}`);
    } catch (thrown) {
      failed++;
      print(`not ok ${group}: ${name}\n    ${(thrown as Error)?.stack ?? String(thrown)}`);
    }
    clearTimeout(timer);
    for (const task of tasks) await task();
  }
  return [passed, failed];
}

export function equal(found: unknown, wanted: unknown, what = "value"): void {
  const show = (value: unknown) =>
    JSON.stringify(value, (_, inner: unknown) =>
      inner instanceof Uint8Array ? `bytes ${hex(inner)}` : inner === undefined ? "undefined" : inner,
    );
  if (show(found) !== show(wanted)) throw new Error(`${what}: ${show(found)} instead of ${show(wanted)}`);
}

export function ok(found: unknown, what: string): void {
  if (!found) throw new Error(what);
}

export async function rejects(promise: Promise<unknown>, code: string): Promise<void> {
  const error = await promise.then(
    () => undefined,
    (error: { code?: string }) => error,
  );
  equal(error?.code, code, "code of the error");
}

export const hex = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export const unhex = (text: string): Uint8Array =>
  new Uint8Array((text.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));

/** A source of numbers from 0 to below 1, the same each time. */
export function seeded(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** Values of one kind of listener, to be awaited one by one. */
export class Seen<T> {
  readonly all: T[] = [];
  private takers: ((value: T) => void)[] = [];
  private taken = 0;

  readonly push = (value: T): void => {
    this.all.push(value);
    this.settle();
  };

  next(): Promise<T> {
    return new Promise((resolve) => {
      this.takers.push(resolve);
      this.settle();
    });
  }

  /** The next that fits; others are passed over. */
  async until(fits: (value: T) => boolean): Promise<T> {
    for (;;) {
      const value = await this.next();
      if (fits(value)) return value;
    }
  }

  private settle(): void {
    while (this.takers.length && this.taken < this.all.length) this.takers.shift()!(this.all[this.taken++]!);
  }
}
