/** Queues: sending, and receiving with an outcome for each message. */
import type { Reader } from "./bytes.js";
import { decodeProperties, decodeValue, type Properties, type ValueOptions } from "./content.js";
import { Emitter } from "./emitter.js";
import { TideraceError } from "./error.js";
import { Inbox } from "./inbox.js";
import type { Interest, Wish } from "./interest.js";
import * as m from "./messages.js";
import type { Keeper } from "./topics.js";

/** Settles messages of the connection they came by; does nothing when that is gone. */
export type Settle = (home: number, number: number, accept: boolean) => void;

/** One message of a queue. It is given back if the connection ends before it was settled. */
export class QueueMessage<T = unknown> {
  private settled = false;

  constructor(
    readonly queue: string,
    readonly value: T,
    readonly properties: Properties,
    /** How often a consumer had it before, as far as the server knows, and did not accept it. */
    readonly redeliveries: number,
    private readonly settle: (accept: boolean) => void,
  ) {}

  /** The topic that it was published to, if it comes by a durable subscription. */
  get topic(): string | undefined {
    return this.properties["source-topic"];
  }

  /** It is dealt with. */
  accept(): void {
    this.finish(true);
  }

  /** It is given back, to be delivered again. */
  reject(): void {
    this.finish(false);
  }

  private finish(accept: boolean): void {
    if (this.settled) return;
    this.settled = true;
    this.settle(accept);
  }
}

export interface ReceiveOptions {
  /** Unsettled messages that may be under way; default 16. */
  prefetch?: number;
  /** No other consumer gets anything while this one lives. */
  exclusive?: boolean;
  /** Only messages whose properties match this SQL-92 condition. */
  selector?: string;
}

export interface BrowseOptions {
  /** Go on with what comes, instead of ending with what is there. */
  follow?: boolean;
  /** Begin with the first message of at least this position (of the operation `peek`), or, with 0, with what comes. */
  from?: number;
  /** Messages that may be under way; default 16. */
  prefetch?: number;
  /** Only messages whose properties match this SQL-92 condition. */
  selector?: string;
}

export type QueueHandler<T> = (value: T, message: QueueMessage<T>) => unknown;

/** What a consumer asks of its client. */
export interface QueueKeeper extends Keeper {
  /** For messages of this interest that arrive now. */
  settler(interest: Interest): Settle;
}

/**
 * A consumer of a queue or of a pattern of queues; ends by `stop`. One that browses ends when all that was there has come
 * (`end`), and does not outlive its connection: on the next one it would begin anew.
 */
export class Consumer<T = unknown>
  extends Emitter<{ error: TideraceError; end: void }>
  implements Interest, AsyncIterable<T>
{
  readonly wish: Wish;
  confirmed = false;
  /** Settles when the server has confirmed it. */
  readonly ready: Promise<void>;
  private outcome!: { resolve: () => void; reject: (error: Error) => void };
  private readonly inbox = new Inbox<QueueMessage<T>>();
  private settle: Settle | undefined;
  private readonly running = new Set<Promise<void>>();
  private stopping = false;

  constructor(
    private readonly keeper: QueueKeeper,
    readonly path: string,
    private readonly handler: QueueHandler<T> | undefined,
    options: ReceiveOptions & BrowseOptions = {},
    private readonly browses = 0,
    makes?: object,
  ) {
    super();
    const { prefetch = 16, exclusive, selector, from: start } = options;
    const flags =
      m.EXPLICIT |
      m.WINDOW |
      (exclusive ? m.EXCLUSIVE : 0) |
      browses |
      (start === undefined ? 0 : m.START) |
      (selector === undefined ? 0 : m.SELECTOR) |
      m.patternFlag(path);
    const window = { messages: prefetch, bytes: 0 };
    this.wish = { kind: m.QUEUE_KIND, path, flags, selector, window, start };
    if (makes) this.wish.makes = makes;
    this.ready = new Promise((resolve, reject) => (this.outcome = { resolve, reject }));
    this.ready.catch(() => {});
  }

  /** No more comes. What handlers have begun is waited for; the rest goes back to the queue. */
  async stop(): Promise<void> {
    this.stopping = true;
    this.inbox.end();
    this.outcome.reject(new TideraceError("closed", "stopped"));
    await Promise.all(this.running);
    await this.keeper.remove(this);
  }

  /**
   * The values, for consumers without a handler. One counts as dealt with when the loop asks for the
   * next; leaving the loop gives the present one back and stops the consumer.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    let message: QueueMessage<T> | undefined;
    try {
      for await (message of this.inbox) {
        yield message.value;
        message.accept();
      }
    } finally {
      message?.reject();
      void this.stop();
    }
  }

  begun(): void {
    this.outcome.resolve();
  }

  failed(error: TideraceError): void {
    this.outcome.reject(error);
    this.inbox.end(error);
    this.emit("error", error);
  }

  recovered(): void {}
  restarted(): void {}
  update(): void {}

  lost(): void {
    this.settle = undefined;
    if (!this.browses || !this.confirmed) return;
    void this.keeper.remove(this);
    this.failed(new TideraceError("connection-lost", "what was shown is not known on another connection"));
  }

  browsed(): void {
    this.inbox.end();
    this.emit("end", undefined);
  }

  queued(path: string | undefined, input: Reader): void {
    const home = input.varint();
    const first = input.varint();
    const redeliveries = input.varint();
    const settle = (this.settle ??= this.keeper.settler(this));
    for (let number = first; !input.empty; number++) {
      const flags = input.u8();
      const block = flags & m.PROPERTIES ? input.bytes() : undefined;
      const value = decodeValue(flags & m.CONTENT, block, input.bytes()) as T;
      const properties = block ? decodeProperties(block) : {};
      const finish = (accept: boolean) => settle(home, number, accept);
      const queue = path ?? this.path;
      this.give(new QueueMessage(queue, value, properties, redeliveries, finish));
    }
  }

  private give(message: QueueMessage<T>): void {
    // Those that come now are not settled: the end of the subscription gives them back.
    if (this.stopping) return;
    if (!this.handler) return this.inbox.push(message);
    const run = this.handle(this.handler, message).finally(() => this.running.delete(run));
    this.running.add(run);
  }

  private async handle(handler: QueueHandler<T>, message: QueueMessage<T>): Promise<void> {
    try {
      await handler(message.value, message);
      message.accept();
    } catch {
      message.reject();
    }
  }
}

export interface SendOptions extends ValueOptions {
  /** It survives a restart of the server, which must have a store. */
  persistent?: boolean;
  /** It is worthless after so many milliseconds. */
  expires?: number;
  /** It is delivered after so many milliseconds. */
  delay?: number;
  /** It is delivered at that time, a date or milliseconds since 1970; counts more than `delay`. */
  deliverAt?: Date | number;
  /** All messages of a group go to one consumer while it is there, in their order. */
  group?: string;
  /** How urgent it is, from 0 to 9, the most urgent; 4 if nothing is said. For queues that order by it. */
  priority?: number;
}

/** What a message says to its queue, under the names that the queue knows. */
function fieldsOf(options: SendOptions): [string, string][] {
  const { delay, deliverAt, group, priority } = options;
  const fields: [string, number | string | undefined][] = [
    ["delay", delay],
    ["deliver-at", deliverAt instanceof Date ? deliverAt.getTime() : deliverAt],
    ["message_group", group],
    ["priority", priority],
  ];
  return fields.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
}

/** What a queue asks of its client. */
export interface Sender extends QueueKeeper {
  publish(kind: m.Kind, path: string, flags: number, value: unknown, options: SendOptions): Promise<void>;
}

/** A queue: each message goes to one consumer. */
export class Queue<T = unknown> {
  constructor(
    private readonly sender: Sender,
    readonly path: string,
    /** @internal */
    protected readonly makes?: object,
  ) {}

  /** Settles when the server has it; a persistent one, when it is stored. */
  send(value: T, options: SendOptions = {}): Promise<void> {
    const fields = fieldsOf(options);
    const flags = (options.persistent ? m.PERSISTENT : 0) | (fields.length ? m.QUEUE_FIELDS : 0);
    const properties = { ...options.properties, ...Object.fromEntries(fields) };
    return this.sender.publish(m.QUEUE_KIND, this.path, flags, value, { ...options, properties });
  }

  /**
   * Consumes. A handler that returns, or whose promise resolves, accepts the message; one that throws,
   * or whose promise rejects, gives it back. Without a handler, iterate over what is returned.
   */
  receive(handler?: QueueHandler<T> | ReceiveOptions, options?: ReceiveOptions): Consumer<T> {
    const isHandler = typeof handler === "function";
    const consumer = new Consumer<T>(
      this.sender,
      this.path,
      isHandler ? handler : undefined,
      isHandler ? options : handler,
      0,
      this.makes,
    );
    this.sender.add(consumer);
    return consumer;
  }

  /**
   * Shows the messages of the queue, which stay there: those that are there, in their order, or also what comes. Accepting
   * a message, or giving it back, only lets more come.
   */
  browse(handler?: QueueHandler<T> | BrowseOptions, options?: BrowseOptions): Consumer<T> {
    const isHandler = typeof handler === "function";
    const wanted = (isHandler ? options : handler) ?? {};
    const flags = m.BROWSE | (wanted.follow ? m.FOLLOW : 0);
    const browser = new Consumer<T>(this.sender, this.path, isHandler ? handler : undefined, wanted, flags);
    this.sender.add(browser);
    return browser;
  }
}

export interface DurableOptions {
  /** Only messages whose properties match this SQL-92 condition are gathered. */
  selector?: string;
}

/**
 * A durable subscription: a queue that topics feed, whether anybody is connected or not. Who consumes from it shares its
 * messages with all others who do. That a consumer stops, or the client closes, ends nothing: it goes on gathering until
 * somebody calls `delete`.
 */
export class DurableSubscription<T = unknown> extends Queue<T> {
  /** @internal */
  constructor(
    sender: Sender,
    private readonly operate: (operation: object) => Promise<unknown>,
    readonly name: string,
    topics?: string | string[],
    options?: DurableOptions,
  ) {
    super(sender, `dsub/${name}`, topics ? { do: "create-subscription", name, topics, ...options } : undefined);
  }

  /**
   * Makes it, or changes what it gathers from now on; `receive` does so by itself. Everything that is published after it
   * settles is gathered.
   */
  async create(): Promise<void> {
    if (!this.makes) throw new TideraceError("bad-operation", "say which topics it gathers");
    await this.operate(this.makes);
  }

  /** Ends it, with all that it has gathered. Refused with `subscription-in-use` while somebody consumes from it. */
  async delete(): Promise<void> {
    await this.operate({ do: "delete-subscription", name: this.name });
  }
}

/** Gathers outcomes of one turn and writes them as ranges. */
export class Settler {
  private readonly rows = new Map<string, { home: number; outcome: number; numbers: number[] }>();
  private due = false;

  constructor(private readonly write: (home: number, outcome: number, ranges: [number, number][]) => void) {}

  add(home: number, number: number, accept: boolean): void {
    const outcome = accept ? 0 : 1;
    const key = `${home} ${outcome}`;
    let row = this.rows.get(key);
    if (!row) this.rows.set(key, (row = { home, outcome, numbers: [] }));
    row.numbers.push(number);
    if (this.due) return;
    this.due = true;
    queueMicrotask(() => this.flush());
  }

  private flush(): void {
    this.due = false;
    for (const { home, outcome, numbers } of this.rows.values()) {
      const ranges: [number, number][] = [];
      for (const number of numbers.sort((a, b) => a - b)) {
        const last = ranges[ranges.length - 1];
        if (last && last[0] + last[1] + 1 === number) last[1]++;
        else ranges.push([number, 0]);
      }
      this.write(home, outcome, ranges);
    }
    this.rows.clear();
  }
}
