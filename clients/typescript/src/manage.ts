/**
 * `tiderace/topics`: what can be done with topics beyond publishing and subscribing. Works on a client's `operate`, and
 * is a module of its own so that pages that only listen need not load it.
 */
import type { Client } from "./client.js";
import type { Properties, ValueOptions } from "./content.js";
import { makeDelta } from "./difference.js";
import type { Replay } from "./topics.js";

/** What can be chosen for a topic; what is left away is as the server's configuration has it. */
export interface TopicSpec {
  /** What its values are; publishers are held to it. */
  type?: "any" | "json" | "string" | "binary" | "int64" | "double" | "timeseries";
  /** Each message is an event that is kept, not a new value. */
  series?: boolean;
  /** Every message becomes the current value. */
  retain?: boolean;
  /** Messages that are kept: how many, how old (`"10m"`, or milliseconds). */
  history?: number | { count?: number; age?: number | string };
  /** Value, history and specification survive a restart. */
  persistent?: boolean;
  /** Updates may be sent as differences. */
  deltas?: boolean;
  slow_consumer?: "block" | "conflate" | "disconnect" | "drop-newest" | "drop-oldest";
  grace?: number | string;
  conflation?: "latest" | "merge";
  /** The shortest time between two updates to one subscriber. */
  interval?: number | string;
  priority?: "low" | "default" | "high";
  owner?: string | null;
  presence?: boolean;
  [more: string]: unknown;
}

/** What has to hold for an update to be done; several fields have to hold together. */
export interface Condition {
  /** There is no value, or no such topic. */
  absent?: true;
  present?: true;
  /** The present value is of this version. */
  version?: number;
  /** The present value is exactly this. */
  value?: unknown;
  text?: string;
  base64?: string;
  /** This client holds the lock of that name. */
  locked?: string;
  /** A place in a JSON value (a JSON Pointer), with one comparison beside it. */
  at?: string;
  eq?: unknown;
  ne?: unknown;
  lt?: unknown;
  le?: unknown;
  gt?: unknown;
  ge?: unknown;
  exists?: true;
  missing?: true;
  all?: Condition[];
  any?: Condition[];
}

export interface UpdateOptions extends ValueOptions {
  /** Otherwise nothing is done: `condition-failed`. */
  if?: Condition;
  /** The topic is created so if it is not known. */
  spec?: TopicSpec;
}

export interface SetOptions extends UpdateOptions {
  /**
   * What this object set last is what the value is changed from: only the difference is sent, unless somebody else has
   * given the topic another value meanwhile. Such updates are made one after the other.
   */
  delta?: boolean;
}

export interface Entry<T = unknown> {
  path: string;
  /** Absent if there was no message yet. */
  version?: number;
  value?: T;
  properties?: Properties;
  spec?: TopicSpec;
}

export interface FetchOptions {
  /** With their values; default false. */
  values?: boolean;
  /** With their specifications; default false. */
  specs?: boolean;
  /** Paths with more levels are cut off there and listed once. */
  depth?: number;
  /** Only those behind this path. */
  after?: string;
  /** How many the server is asked for at a time. */
  page?: number;
}

export interface Event<T = unknown> {
  version: number;
  /** When the server took it, in milliseconds since 1970. */
  time: number;
  author?: string;
  /** The version of the event that it replaces. */
  amends?: number;
  value: T;
  properties?: Properties;
}

export type HistoryOptions = (Replay | object) & {
  /** The last version wanted. */
  to?: number;
  /** Events that were replaced are wanted as well. */
  amended?: boolean;
  /** How many the server is asked for at a time. */
  page?: number;
};

export interface View {
  name: string;
  text: string;
}

export interface SessionState {
  subscriptions: number;
  backlog_messages: number;
  backlog_bytes: number;
  /** Messages for which a newer one was put in their place. */
  conflated: number;
  dropped: number;
}

/** A JSON Patch (RFC 6902). */
export type Patch = { op: string; path: string; from?: string; value?: unknown }[];

/** A lock or claim that is held until it is given back or the connection is lost. */
export class Held {
  private readonly lost = new AbortController();
  private readonly forget: () => void;

  /** @internal */
  constructor(
    client: Client,
    readonly name: string,
    /** Rises each time that somebody takes the lock: shown to others, they can tell a late holder. */
    readonly fence: number,
    private readonly giveBack: () => Promise<unknown>,
  ) {
    this.forget = client.on("state", () => this.end());
  }

  /** Aborted when it is not held any more: given back, or lost with the connection. */
  get signal(): AbortSignal {
    return this.lost.signal;
  }

  /** Gives it back. */
  async release(): Promise<void> {
    if (this.signal.aborted) return;
    this.end();
    await this.giveBack();
  }

  private end(): void {
    this.forget();
    this.lost.abort();
  }
}

/** A value that was set with `delta`: its version, its bytes, and what else was said of it. */
type Base = readonly [version: number, body: Uint8Array, about: string];

/** One topic, to be created, changed, read and removed. */
export class ManagedTopic<T = unknown> {
  /** The value that was set last, once it has been; each next one waits for it. */
  private base: Promise<Base | undefined> = Promise.resolve(undefined);

  /** @internal */
  constructor(
    private readonly all: Topics,
    readonly path: string,
  ) {}

  /** Makes the topic known; whether it was there before. Refused if it is there with another specification. */
  async create(spec: TopicSpec = {}, value?: T, options?: ValueOptions): Promise<boolean> {
    const { existed } = await this.write<{ existed: boolean }>({ do: "create", spec }, value, options);
    return existed;
  }

  /** Gives it a value; the value's version. */
  async set(value: T, { if: condition, spec, delta, ...options }: SetOptions = {}): Promise<number> {
    const fields = { if: condition, spec };
    if (!delta) return this.update(fields, value, options);
    const known = this.base;
    const done = known.then((base) => this.change(base, fields, value, options));
    this.base = done.catch(() => known);
    return (await done)[0];
  }

  /** Changes places in its value, which is JSON; the new value's version. */
  patch(patch: Patch, options: Pick<UpdateOptions, "if"> = {}): Promise<number> {
    return this.update({ patch, ...options });
  }

  /** Puts fields in place of those in its value (RFC 7386; `null` removes one); the new value's version. */
  merge(merge: unknown, options: Pick<UpdateOptions, "if"> = {}): Promise<number> {
    return this.update({ merge, ...options });
  }

  /** Its value with its version, or `undefined` if there is no such topic. */
  async get(): Promise<Entry<T> | undefined> {
    for await (const entry of this.all.fetch<T>(this.path, { values: true, specs: true })) return entry;
    return undefined;
  }

  /** Removes the topic, its value and its history; whether it was there. */
  async remove(): Promise<boolean> {
    return (await this.all.remove(this.path)) > 0;
  }

  /** The messages that it keeps, oldest first, page by page. */
  async *history(options: HistoryOptions = {}): AsyncGenerator<Event<T>, void> {
    const { page, ...query } = options as Record<string, unknown> & { page?: number };
    if ("since" in query) query["since"] = +(query["since"] as Date);
    let left = (query["last"] as number | undefined) ?? Infinity;
    let from: object = query;
    for (let more = true; more; ) {
      const request = { do: "history", path: this.path, limit: page, ...from };
      const found = await this.all.read<{ events: Event<T>[]; more: boolean }>(request);
      for (const event of found.events) {
        if (left-- <= 0) return;
        yield event;
      }
      more = found.more;
      const version = (found.events.at(-1)?.version ?? 0) + 1;
      from = { to: query["to"], amended: query["amended"], version };
    }
  }

  /** Puts another value in place of an event of a time series; the new event's version. */
  async amend(version: number, value: T, options?: ValueOptions): Promise<number> {
    return (await this.write<{ version: number }>({ do: "amend", version }, value, options)).version;
  }

  /** From now on only this client may publish to it. */
  async claim(): Promise<Held> {
    const { client } = this.all;
    await this.write({ do: "claim" });
    return new Held(client, this.path, 0, () => this.write({ do: "release" }));
  }

  /** Sends a value, or how it differs from the one before. */
  private async change(base: Base | undefined, fields: object, value: T, options: ValueOptions): Promise<Base> {
    const [content, bytes] = contentOf(value, options);
    const { value: json, text, ...more } = content as { value?: unknown; text?: string };
    const body = bytes ?? new TextEncoder().encode(text ?? JSON.stringify(json));
    const about = JSON.stringify([more, text === undefined]);
    const done = (version: number): Base => [version, body, about];
    const delta = base?.[2] === about && makeDelta(base[1], body);
    if (delta && delta.length < body.length) {
      const change = { do: "update", path: this.path, ...fields, delta: { codec: 1, base: base[0] } };
      try {
        return done((await this.all.client.operate<{ version: number }>(change, delta)).version);
      } catch (error) {
        // Somebody else has changed it, or it is gone: then the whole value says it all, under the same condition.
        if (!["condition-failed", "topic-unknown"].includes((error as { code?: string }).code!)) throw error;
      }
    }
    return done(await this.update(fields, value, options));
  }

  private async update(fields: object, value?: T, options?: ValueOptions): Promise<number> {
    return (await this.write<{ version: number }>({ do: "update", ...fields }, value, options)).version;
  }

  private write<Result>(fields: object, value?: T, options?: ValueOptions): Promise<Result> {
    const [content, body] = contentOf(value, options);
    return this.all.client.operate({ ...fields, path: this.path, ...content }, body);
  }
}

/** All topics that a client may see. */
export class Topics {
  private reading = 0;
  private readonly waiting: (() => void)[] = [];
  private testament: (() => Promise<unknown>) | undefined;

  /** The server's views: topics that it makes of others. */
  readonly views = {
    put: async (name: string, text: string): Promise<void> => {
      await this.client.operate({ do: "view", name, text });
    },
    remove: async (name: string): Promise<void> => {
      await this.client.operate({ do: "unview", name });
    },
    list: async (): Promise<View[]> => (await this.read<{ views: View[] }>({ do: "views" })).views,
  };

  /** @internal */
  constructor(readonly client: Client) {
    client.on("state", ({ status }) => {
      if (status === "connected") this.testament?.().catch(() => {});
    });
  }

  /** One topic. */
  at<T = unknown>(path: string): ManagedTopic<T> {
    return new ManagedTopic<T>(this, path);
  }

  /** The topics that a selector names, in the order of their paths, page by page. */
  async *fetch<T = unknown>(selector: string | string[], options: FetchOptions = {}): AsyncGenerator<Entry<T>, void> {
    const { page, after, ...wanted } = options;
    for (let next = after, more = true; more; ) {
      const request = { do: "fetch", selector, limit: page, after: next, ...wanted };
      const found = await this.read<{ topics: Entry<T>[]; more: boolean; next?: string }>(request);
      yield* found.topics;
      more = found.more;
      next = found.next;
    }
  }

  /** Removes all topics that a selector names; how many. */
  async remove(selector: string | string[]): Promise<number> {
    return (await this.client.operate<{ topics: number }>({ do: "remove", selector })).topics;
  }

  /** Takes a lock; waits for it for so many milliseconds if another client has it. */
  async lock(name: string, options: { timeout?: number | string } = {}): Promise<Held> {
    const { client } = this;
    const { fence } = await client.operate<{ fence: number }>({ do: "lock", name, ...options });
    return new Held(client, name, fence, () => client.operate({ do: "unlock", name }));
  }

  /** What is published if this client is lost: ends otherwise than by `close`. Kept across connections. */
  async will(path: string, value: unknown, options: ValueOptions & { retain?: boolean } = {}): Promise<void> {
    const { retain, ...rest } = options;
    const [content, body] = contentOf(value, rest);
    const tell = () => this.client.operate({ do: "will", path, retain, ...content }, body);
    await tell();
    this.testament = tell;
  }

  /** Takes the will back. */
  async forgetWill(): Promise<void> {
    this.testament = undefined;
    await this.client.operate({ do: "will" });
  }

  /** How this client's session fares at the server. */
  session(): Promise<SessionState> {
    return this.client.operate<SessionState>({ do: "session" });
  }

  /**
   * Asks for what may be long: the server answers only so many of these at a time.
   * @internal
   */
  async read<Result>(operation: object): Promise<Result> {
    if (this.reading < READS_MAX) this.reading++;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
    try {
      return await this.client.operate<Result>(operation);
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.reading--;
    }
  }
}

const known = new WeakMap<Client, Topics>();

/** What a client can do with topics beyond publishing and subscribing. */
export function topicsOf(client: Client): Topics {
  let topics = known.get(client);
  if (!topics) known.set(client, (topics = new Topics(client)));
  return topics;
}

/** A value as fields of an operation, or as bytes beside it. */
function contentOf(value: unknown, { type, properties }: ValueOptions = {}): [object, Uint8Array?] {
  const given = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
  if (given === undefined) return [{}];
  if (given instanceof Uint8Array) return [{ type: type ?? "application/octet-stream", properties }, given];
  if (!type || type === "application/json" || type.endsWith("+json")) return [{ value: given, type, properties }];
  return [{ text: String(given), type, properties }];
}

/** Operations that read under way at a time (docs/protocol.md, section 4). */
const READS_MAX = 16;
