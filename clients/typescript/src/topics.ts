/**
 * Topics: publishing, and subscriptions that miss nothing unnoticed. Of each topic of a subscription
 * the version of the last message is kept across connections; a jump is told as a gap before the
 * message behind it (docs/protocol.md, section 6).
 */
import type { Reader } from "./bytes.js";
import { decodeProperties, decodeValue, type Properties, type ValueOptions } from "./content.js";
import { applyDelta } from "./delta.js";
import { Emitter, report } from "./emitter.js";
import { TideraceError } from "./error.js";
import { Inbox } from "./inbox.js";
import type { Interest, Wish } from "./interest.js";
import * as m from "./messages.js";

/** One message of a topic. */
export class Update<T = unknown> {
  private decoded: { value: T } | undefined;

  constructor(
    /** The topic, also for subscriptions to patterns. */
    readonly topic: string,
    /** The topic's count of messages. */
    readonly version: number,
    /** The topic has no current value any more. */
    readonly removed: boolean,
    /** The body as it is; not to be changed. */
    readonly bytes: Uint8Array,
    private readonly content: number,
    private readonly block: Uint8Array | undefined,
  ) {}

  /** The value: decoded when first asked for. `undefined` when removed. */
  get value(): T {
    this.decoded ??= {
      value: (this.removed ? undefined : decodeValue(this.content, this.block, this.bytes)) as T,
    };
    return this.decoded.value;
  }

  get properties(): Properties {
    return this.block ? decodeProperties(this.block) : {};
  }
}

/** Messages were missed. */
export interface Gap {
  /**
   * `skipped`: a topic's versions jumped, since the server left messages out for a slow client or
   * since nobody recovered them. `not-recovered`: the client was away for too long. `restarted`: the
   * server was started anew or is another one, and it is not known what was missed. `defect`: a delta could not be applied; the subscription is renewed.
   */
  reason: "skipped" | "not-recovered" | "restarted" | "defect";
  /** Which topic, if it is known. */
  topic?: string;
  /** How many messages, if it is known. */
  missed?: number;
}

export interface SubscribeOptions {
  /** The current value first; default true. */
  snapshot?: boolean;
  /** What is missed while the connection is away comes afterwards; default true. */
  recoverable?: boolean;
  /** Values may be sent as differences, which is not seen from outside; default true. */
  deltas?: boolean;
  /** Only messages whose properties match this SQL-92 condition. Jumps of versions then mean nothing. */
  selector?: string;
  /** `value` is then the body's bytes. */
  raw?: boolean;
  /** What topics keep comes first, instead of their values: from there on. */
  replay?: Replay;
  /**
   * Milliseconds at least between two updates of one topic. What comes in between is conflated. Jumps of versions then
   * mean nothing.
   */
  interval?: number;
  /** Tell by `joined` and `left` which topics the subscription gains and loses. */
  notices?: boolean;
}

/** Where to begin in what a topic keeps. */
export type Replay =
  | { /** With the last so many messages. */ last: number }
  | { /** With this version. */ version: number }
  | { /** With the first message at or after this time. */ since: number | Date };

export interface SubscriptionEvents {
  gap: Gap;
  /** After a new connection: whether all that was missed comes now. */
  recovered: { complete: boolean };
  /** The subscription has gained a topic: all there are at first, also after a new connection. */
  joined: { topic: string; spec: Record<string, unknown> };
  /** The subscription has lost a topic. */
  left: { topic: string; reason: "removed" | "not-authorised" };
  /** The subscription is over: refused or ended by the server. It is not made again on another connection. */
  error: TideraceError;
}

export type UpdateHandler<T> = (value: T, update: Update<T>) => unknown;

/** Where one topic of a subscription stands. */
interface Progress {
  /** Of the last message given to the application. */
  version: number | undefined;
  /** Of the last message on the present connection, and its body if deltas may refer to it. */
  cursor: number | undefined;
  base: Uint8Array | undefined;
  /** Which version the next one follows, if that is not one less. */
  follows?: number | undefined;
  /** It has been told already that something may be missing before the next version. */
  told?: boolean;
  /** The topic holds a value, as far as is known, and whether that has come since it was subscribed last. */
  held?: boolean;
  fresh?: boolean;
  /** What came again, although it was known. */
  again?: Update<never> | undefined;
}

/** What a subscription asks of its client. */
export interface Keeper {
  add(interest: Interest): void;
  remove(interest: Interest): Promise<void>;
  /** Bytes that begin, or cease, to wait for the application. */
  held(bytes: number): void;
  counters: TopicCounters;
}

export interface TopicCounters {
  updates: number;
  deltas: number;
  /** What the bodies would have taken beyond what was sent in their place. */
  deltaBytesSaved: number;
  duplicates: number;
  gaps: number;
}

/** A subscription to a topic or pattern; ends by `unsubscribe`. */
export class Subscription<T = unknown>
  extends Emitter<SubscriptionEvents>
  implements Interest, AsyncIterable<Update<T>>
{
  readonly wish: Wish;
  confirmed = false;
  of: string | undefined;
  recallable: Map<string, number | undefined> | undefined;
  /** Values of another server came last, and are to be taken over once what was missed has come. */
  private strange = false;
  /** Settles when the server has confirmed it: every message published from then on comes. */
  readonly ready: Promise<void>;
  private settle!: { resolve: () => void; reject: (error: Error) => void };
  private readonly progress = new Map<string, Progress>();
  private readonly inboxes = new Set<Inbox<Update<T>>>();
  private over = false;

  constructor(
    private readonly keeper: Keeper,
    readonly path: string,
    private readonly handler: UpdateHandler<T> | undefined,
    private readonly options: SubscribeOptions = {},
  ) {
    super();
    const { snapshot = true, recoverable = true, deltas = true, selector, replay, interval } = options;
    const flags =
      (snapshot ? m.SNAPSHOT : 0) |
      (recoverable ? m.RECOVERABLE : 0) |
      (deltas ? m.DELTAS : 0) |
      (selector === undefined ? 0 : m.SELECTOR) |
      (replay ? m.REPLAY : 0) |
      (interval ? m.INTERVAL : 0) |
      (options.notices ? m.NOTICES : 0) |
      m.patternFlag(path);
    this.wish = { kind: m.TOPIC_KIND, path, flags, selector };
    if (replay) this.wish.replay = replayFields(replay);
    if (interval) this.wish.interval = Math.ceil(interval);
    this.ready = new Promise((resolve, reject) => (this.settle = { resolve, reject }));
    // A caller that does not ask is told by `error`.
    this.ready.catch(() => {});
  }

  /** No more comes from now on; settles when the server knows. */
  async unsubscribe(): Promise<void> {
    this.end();
    await this.keeper.remove(this);
  }

  /** The updates from now on. Ends with the subscription; leaving the loop does not end that. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Update<T>> {
    const inbox: Inbox<Update<T>> = new Inbox(
      (bytes) => this.keeper.held(bytes),
      () => void this.inboxes.delete(inbox),
    );
    if (this.over) inbox.end();
    else this.inboxes.add(inbox);
    return inbox;
  }

  get stale(): boolean {
    for (const { held } of this.progress.values()) if (held) return true;
    return false;
  }

  begun(settled: boolean): void {
    this.settle.resolve();
    if (this.strange) {
      this.strange = false;
      for (const progress of this.progress.values()) if (!progress.fresh) progress.version = undefined;
      if (this.wish.flags & (m.SNAPSHOT | m.REPLAY)) return this.renew();
    }
    if (!settled) return;
    for (const [path, progress] of this.progress) {
      const { version, cursor, again } = progress;
      if (!progress.fresh) {
        this.progress.delete(path);
        if (progress.held) this.give(new Update<T>(path, version ?? 0, true, new Uint8Array(), 0, undefined));
      } else if (again && cursor! < version!) {
        // The server has lost what came behind it.
        progress.version = cursor;
        this.give(again);
      }
      progress.again = undefined;
    }
  }

  failed(error: TideraceError): void {
    this.settle.reject(error);
    this.emit("error", error);
    this.end(error);
  }

  recovered(complete: boolean, continues: boolean, another: string | undefined, settles: boolean): void {
    if (!complete) {
      if (another && this.of !== another) {
        this.recallable = new Map([...this.progress].map(([path, { version }]) => [path, version]));
        this.of = another;
      }
      if (!continues) this.forget();
      this.strange = false;
      for (const progress of this.progress.values()) progress.told = true;
      this.gap({ reason: another ? "restarted" : "not-recovered" });
    }
    this.emit("recovered", { complete });
    // Values anew, to know which of those that are known are not there any more.
    if (!complete && settles && this.wish.flags & (m.SNAPSHOT | m.REPLAY)) this.renew();
  }

  lost(): void {
    for (const progress of this.progress.values()) {
      progress.cursor = progress.base = progress.again = undefined;
      progress.fresh = false;
    }
  }

  restarted(): void {
    const known = this.confirmed || [...this.progress.values()].some(({ version }) => version !== undefined);
    this.forget();
    if (known) this.gap({ reason: "restarted" });
  }

  recall(): boolean {
    const { recallable } = this;
    if (!recallable) return false;
    this.forget();
    for (const [path, version] of recallable) this.progressOf(path).version = version;
    this.recallable = undefined;
    return (this.strange = true);
  }

  queued(): void {}

  noticed(gained: boolean, topic: string, text: string): void {
    const known = this.progress.get(topic);
    // What is shown again later may have the version that it had.
    if (known && !gained && text !== "removed") known.held = false;
    if (gained) this.emit("joined", { topic, spec: JSON.parse(text) });
    else this.emit("left", { topic, reason: text as "removed" });
  }

  follows(path: string | undefined, version: number): void {
    this.progressOf(path ?? this.path).follows = version;
  }

  private progressOf(path: string): Progress {
    let progress = this.progress.get(path);
    if (!progress) this.progress.set(path, (progress = { version: undefined, cursor: undefined, base: undefined }));
    return progress;
  }

  update(flags: number, path: string | undefined, input: Reader): void {
    const topic = path ?? this.path;
    const progress = this.progressOf(topic);
    const version = readVersion(flags, progress.cursor, input);
    const block = flags & m.PROPERTIES ? input.bytes().slice() : undefined;
    const data = input.bytes();
    const body = this.body(flags, progress, data);
    if (!body) return;
    // A value that was hidden, and comes again.
    const shown = version === progress.version && progress.held === false && flags & m.VALUE;
    const repeated =
      progress.version !== undefined &&
      version <= progress.version &&
      !shown &&
      (progress.cursor === undefined || progress.cursor < progress.version);
    progress.cursor = version;
    if (this.wish.flags & m.DELTAS) progress.base = body;
    if (flags & (m.REMOVED | m.VALUE)) progress.held = !(flags & m.REMOVED);
    progress.fresh = true;
    const before = progress.follows ?? version - 1;
    progress.follows = undefined;
    const update = new Update<T>(topic, version, !!(flags & m.REMOVED), body, flags & m.CONTENT, block);
    if (repeated) {
      // It came before the connection was lost, and the server could not know.
      progress.again = update as Update<never>;
      this.keeper.counters.duplicates++;
      return;
    }
    const { version: last, told } = progress;
    progress.version = version;
    progress.told = false;
    if (last !== undefined && !told && !this.options.selector && !this.options.interval) {
      if (version <= last && !shown) this.gap({ reason: "skipped", topic });
      else if (before > last) this.gap({ reason: "skipped", topic, missed: before - last });
    }
    this.give(update);
  }

  /** The whole body, or nothing if the delta does not fit. */
  private body(flags: number, progress: Progress, data: Uint8Array): Uint8Array | undefined {
    const { counters } = this.keeper;
    // A copy does not keep everything alive that arrived with it.
    if (!(flags & m.DELTA)) return data.slice();
    try {
      if (!progress.base) throw new TideraceError("bad-frame", "a delta to nothing");
      const body = applyDelta(progress.base, data);
      counters.deltas++;
      counters.deltaBytesSaved += body.length - data.length;
      return body;
    } catch {
      this.wish.flags &= ~m.DELTAS;
      this.forget();
      this.renew();
      this.gap({ reason: "defect" });
      return undefined;
    }
  }

  /** Subscribes again under another id. */
  private renew(): void {
    if (this.over) return;
    void this.keeper.remove(this);
    this.confirmed = false;
    this.lost();
    this.keeper.add(this);
  }

  private give(update: Update<T>): void {
    this.keeper.counters.updates++;
    for (const inbox of [...this.inboxes]) inbox.push(update, update.bytes.length);
    if (!this.handler || this.over) return;
    try {
      const value = this.options.raw ? (update.bytes as unknown as T) : update.value;
      const done = this.handler(value, update);
      if (!isPromise(done)) return;
      const size = update.bytes.length;
      this.keeper.held(size);
      const release = () => this.keeper.held(-size);
      done.then(release, (thrown: unknown) => {
        release();
        report(thrown);
      });
    } catch (thrown) {
      report(thrown);
    }
  }

  private gap(gap: Gap): void {
    this.keeper.counters.gaps++;
    this.emit("gap", gap);
  }

  /** The next versions are compared with nothing. What this connection has sent stays known. */
  private forget(): void {
    for (const progress of this.progress.values()) progress.version = undefined;
  }

  private end(error?: TideraceError): void {
    this.over = true;
    this.settle.reject(error ?? new TideraceError("closed", "unsubscribed"));
    for (const inbox of this.inboxes) inbox.end(error);
    this.inboxes.clear();
    this.progress.clear();
  }
}

/** Section 6: whole, or its lowest 16 bits above the last one. */
function readVersion(flags: number, last: number | undefined, input: Reader): number {
  if (flags & m.FULL_VERSION) return input.varint();
  const low = input.u16le();
  if (last === undefined) throw new TideraceError("bad-frame", "a version without its beginning");
  return last + ((low - (last % 0x10000) + 0x10000) % 0x10000 || 0x10000);
}

const replayFields = (from: Replay): readonly [number, number] =>
  "last" in from ? [0, from.last] : "version" in from ? [1, from.version] : [2, +from.since];

const isPromise = (value: unknown): value is Promise<unknown> =>
  typeof (value as Promise<unknown> | undefined)?.then === "function";

export interface PublishOptions extends ValueOptions {
  /** It becomes the current value, also where the server would not keep one. */
  retain?: boolean;
  /** It is worthless after so many milliseconds. */
  expires?: number;
}

/** What a topic asks of its client to publish. */
export interface Publisher extends Keeper {
  publish(kind: m.Kind, path: string, flags: number, value: unknown, options: PublishOptions): Promise<void>;
  /** Settles when what the server had on its way has come. */
  roundTrip(): Promise<void>;
}

/** A topic, or a pattern of topics. */
export class Topic<T = unknown> {
  constructor(
    private readonly publisher: Publisher,
    readonly path: string,
  ) {}

  /** Subscribes; values come to the handler, to asynchronous iterators of the subscription, or both. */
  subscribe(handler?: UpdateHandler<T> | SubscribeOptions, options?: SubscribeOptions): Subscription<T> {
    const isHandler = typeof handler === "function";
    const subscription = new Subscription<T>(
      this.publisher,
      this.path,
      isHandler ? handler : undefined,
      isHandler ? options : handler,
    );
    this.publisher.add(subscription);
    return subscription;
  }

  /** Settles when the server has it. What is not sent yet waits for a connection. */
  publish(value: T, options: PublishOptions = {}): Promise<void> {
    return this.publisher.publish(m.TOPIC_KIND, this.path, options.retain ? m.RETAIN : 0, value, options);
  }

  /** Removes the current value; subscribers get an update that says so. */
  remove(options: ValueOptions = {}): Promise<void> {
    return this.publisher.publish(m.TOPIC_KIND, this.path, m.REMOVE, undefined, options);
  }

  /** The current value, `undefined` if there is none. */
  async value(): Promise<T | undefined> {
    let found: Update<T> | undefined;
    const subscription = this.subscribe((_, update) => void (found ??= update), {
      recoverable: false,
      deltas: false,
      raw: true,
    });
    try {
      await subscription.ready;
      if (!found) await this.publisher.roundTrip();
      return (found as Update<T> | undefined)?.value;
    } finally {
      void subscription.unsubscribe();
    }
  }
}
