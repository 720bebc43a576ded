/**
 * The client: one connection that is kept, and what the application has begun on it.
 * Invariant: what waits to be sent is bounded by `sendMax`; promises that depend on a connection
 * settle at the latest when it ends.
 */
import { type Reader, utf8, Writer } from "./bytes.js";
import { Connector, type State } from "./connector.js";
import { decodeProperties, decodeValue, encodeValue, type ValueOptions } from "./content.js";
import { Credit } from "./credit.js";
import { Emitter } from "./emitter.js";
import { TideraceError } from "./error.js";
import { Hub } from "./hub.js";
import type { Interest } from "./interest.js";
import type { Link, Welcome } from "./link.js";
import * as m from "./messages.js";
import { credentials, settingsOf, type Addressed, type ConnectOptions, type Settings } from "./options.js";
import { Position } from "./position.js";
import { type DurableOptions, DurableSubscription, Queue, Settler, type Sender } from "./queues.js";
import { Conversation, Exchanges, Responder, type ServeOptions, type ServiceHandler } from "./services.js";
import { type Publisher, type PublishOptions, Topic } from "./topics.js";
import type { TransportName } from "./transport/transport.js";

export interface ClientEvents {
  /** The connection's state has changed. */
  state: State;
  /** The server refused something that has no promise of its own to tell. */
  error: TideraceError;
}

/** What has been counted since the client was made. */
export interface Counts {
  /** As they came, without the frames of WebSocket and HTTP. */
  bytesReceived: number;
  bytesSent: number;
  updates: number;
  deltas: number;
  /** Bytes that deltas were shorter than the values they stood for. */
  deltaBytesSaved: number;
  /** Updates that had come before a loss and were sent again; not given to the application. */
  duplicates: number;
  gaps: number;
  connections: number;
}

export interface CallOptions extends ValueOptions {
  /** Milliseconds for the answer; default 30,000. */
  timeout?: number;
  signal?: AbortSignal;
}

/** Something to do as soon as there is a connection. */
interface Postponed {
  size: number;
  run: (link: Link) => void;
  reject: (error: TideraceError) => void;
}

export class Client extends Emitter<ClientEvents> {
  readonly counts: Counts = {
    bytesReceived: 0,
    bytesSent: 0,
    updates: 0,
    deltas: 0,
    deltaBytesSaved: 0,
    duplicates: 0,
    gaps: 0,
    connections: 0,
  };
  private readonly settings: Settings;
  private readonly connector: Connector;
  private readonly hub = new Hub((error) => void this.emit("error", error));
  private readonly exchanges = new Exchanges();
  private readonly credit: Credit;
  private readonly keeper: Publisher & Sender;
  private position: Position | undefined;
  /** Of another server or another life of it, until that tells where this client is. */
  private renewed: Position | undefined;
  private postponed: Postponed[] = [];
  private postponedBytes = 0;
  /** Paths published to on this connection: seen once, or declared under a number. */
  private declared = new Map<string, number>();
  private declarations = 0;

  constructor(addressed: Addressed | undefined, options: ConnectOptions = {}) {
    super();
    this.settings = settingsOf(addressed, options);
    this.credit = new Credit(this.settings.window);
    this.keeper = {
      counters: this.counts,
      add: (interest) => this.add(interest),
      remove: (interest) => this.hub.remove(interest),
      held: (bytes) => this.credit.hold(bytes),
      settler: (interest) => this.settler(interest),
      publish: (kind, path, flags, value, options) => this.publish(kind, path, flags, value, options),
      roundTrip: async () => this.connector.link?.roundTrip(),
    };
    this.connector = new Connector(this.settings, this.counts, {
      hello: () => this.hello(),
      up: (link, welcome) => this.up(link, welcome),
      message: (type, input, size) => this.message(type, input, size),
      settled: () => this.credit.grant(),
      down: (reason) => this.down(reason),
      state: (state) => this.changed(state),
    });
    // A listener added right after this is told of every state.
    queueMicrotask(() => this.connector.start());
  }

  /** How it is connected. */
  get state(): State {
    return this.connector.state;
  }

  /** A topic, or with `*` a pattern of topics. */
  topic<T = unknown>(path: string): Topic<T> {
    return new Topic<T>(this.keeper, path);
  }

  /** A queue. */
  queue<T = unknown>(path: string): Queue<T> {
    return new Queue<T>(this.keeper, path);
  }

  /**
   * A durable subscription of that name to topics and patterns of topics: they feed a queue, whether anybody is connected
   * or not. Without topics, one that is there already.
   */
  durable<T = unknown>(name: string, topics?: string | string[], options?: DurableOptions): DurableSubscription<T> {
    return new DurableSubscription<T>(this.keeper, (operation) => this.operate(operation), name, topics, options);
  }

  /** Asks a service and waits for its answer. */
  call<Answer = unknown>(service: string, value?: unknown, options: CallOptions = {}): Promise<Answer> {
    const { timeout = 30_000, signal } = options;
    return new Promise((resolve, reject) => {
      let conversation: Conversation | undefined;
      let over = false;
      const fail = (error: TideraceError) => {
        finish();
        reject(error);
        conversation?.cancel(error);
      };
      const aborted = () => fail(new TideraceError("aborted", "given up by the caller"));
      const timer = setTimeout(() => fail(new TideraceError("timeout", "no answer in time")), timeout);
      const finish = () => {
        over = true;
        clearTimeout(timer);
        signal?.removeEventListener("abort", aborted);
      };
      signal?.addEventListener("abort", aborted);
      if (signal?.aborted) return aborted();
      const run = (link: Link) => {
        if (over) return;
        conversation = this.begin(link, service, value, { ...options, last: true, timeout });
        conversation.next().then(
          (answer) => (finish(), resolve(answer as Answer)),
          (error: TideraceError) => (finish(), reject(error)),
        );
      };
      this.whenConnected({ size: 0, run, reject: fail });
    });
  }

  /** Begins a conversation with a service; `first` is the first thing said. */
  converse<In = unknown, Out = unknown>(
    service: string,
    first?: Out,
    options: ValueOptions & { timeout?: number } = {},
  ): Promise<Conversation<In, Out>> {
    return new Promise((resolve, reject) => {
      const run = (link: Link) => {
        const whole = { ...options, last: false, timeout: options.timeout ?? 0 };
        resolve(this.begin(link, service, first, whole) as Conversation<In, Out>);
      };
      this.whenConnected({ size: 0, run, reject });
    });
  }

  /** Answers calls of a service. */
  serve<In = unknown, Out = unknown>(
    service: string,
    handler: ServiceHandler<In, Out>,
    options?: ServeOptions,
  ): Responder<In, Out> {
    const responder = new Responder<In, Out>(this.keeper, service, handler, options);
    this.add(responder);
    return responder;
  }

  /** Shows a new token, on this connection and on those to come; gives the principal's name. */
  async login(token: string): Promise<string> {
    const auth = credentials({ token });
    const answer = await this.request<Reader>(m.LOGIN, 0, (id) => new Writer().varint(id).raw(auth.done()));
    this.settings.token = token;
    return answer.string();
  }

  /**
   * Does something with topics (docs/protocol.md, section 12), such as `{ do: "fetch", selector: "a/**" }`, and gives
   * what came of it. `body` is the value's bytes, if it is not in the operation. `tiderace/topics` knows all operations.
   */
  async operate<Result = unknown>(operation: object, body?: Uint8Array): Promise<Result> {
    const text = utf8(JSON.stringify(operation));
    const size = text.length + (body?.length ?? 0);
    const answer = await this.request<Reader>(m.OPERATE, size, (id) => {
      const out = new Writer().varint(id).u8(body ? 1 : 0).bytes(text);
      return body ? out.raw(body) : out;
    });
    const result = JSON.parse(answer.string());
    for (const entry of [result.topics, result.events, result.messages].flat()) {
      if (entry?.bytes === undefined) continue;
      const flags = answer.u8();
      const block = flags & m.PROPERTIES ? answer.bytes() : undefined;
      entry.value = decodeValue(flags & m.CONTENT, block, answer.bytes());
      if (block) entry.properties = decodeProperties(block);
    }
    return result;
  }

  /** Gives up the connection until `resume`; subscriptions stay and are recovered then. */
  pause(): void {
    this.connector.pause();
  }

  /** Connects at once if there is no connection. */
  resume(): void {
    this.connector.start();
  }

  /** Connects anew by these transports, the best first. */
  use(transports: readonly TransportName[]): void {
    this.connector.use(transports);
  }

  /** Drops the connection as a broken network would: for demonstrations and tests. */
  cut(): void {
    this.connector.link?.cut();
  }

  /** Ends everything. */
  close(): void {
    this.connector.close(new TideraceError("closed", "closed by the application"));
  }

  // The connection's life.

  private async hello(): Promise<Writer> {
    const { settings, position } = this;
    const auth = credentials({
      ...settings,
      token: typeof settings.token === "function" ? await settings.token() : settings.token,
    });
    const out = new Writer().varint(1).varint(0).raw(auth.done());
    out.varint(1).varint(m.DELTA_CODEC).string(settings.name);
    return out.bytes(position ? position.encode() : new Uint8Array());
  }

  private up(link: Link, welcome: Welcome): void {
    this.counts.connections++;
    const fresh = new Position(welcome.epoch);
    this.position ??= fresh;
    this.renewed = this.position.of === fresh.of ? undefined : fresh;
    this.declared = new Map();
    this.declarations = 0;
    this.credit.begin((payload) => link.send(m.CREDIT, payload));
    this.hub.up(link, fresh.of, this.position.of);
    this.postponedBytes = 0;
    for (const { run } of this.postponed.splice(0)) run(link);
  }

  private down(reason: TideraceError): void {
    this.credit.end();
    this.hub.down();
    this.exchanges.down(reason);
  }

  private changed(state: State): void {
    if (state.status === "closed") {
      for (const { reject } of this.postponed.splice(0)) reject(state.reason);
      this.hub.close(state.reason);
    }
    this.emit("state", state);
  }

  private message(type: number, input: Parameters<Hub["message"]>[1], size: number): void {
    const link = this.connector.link;
    if (type === m.UPDATES || type === m.QUEUED) this.credit.received(size);
    if (type === m.POSITION) {
      if (this.renewed) {
        this.position = this.renewed;
        this.renewed = undefined;
        this.hub.positioned();
      }
      this.position?.advance(input);
    } else if (type === m.ENDED) this.exchanges.ended(input);
    else if (type === m.EXCHANGE && link) {
      const send = (type: number, payload: Writer) => link.send(type, payload);
      this.exchanges.exchange(input, send, (announced, id) => this.hub.find(announced, id).place.interest);
    } else this.hub.message(type, input);
  }

  // What others ask of it.

  private add(interest: Interest): void {
    const { state } = this;
    if (state.status === "closed") return interest.failed(state.reason);
    this.hub.add(interest);
  }

  /** Runs now, or when there is a connection. */
  private whenConnected(task: Postponed): void {
    const { state, link } = this.connector;
    if (state.status === "closed") return task.reject(state.reason);
    const waiting = link?.welcome ? link.buffered : this.postponedBytes;
    if (waiting + task.size > this.settings.sendMax) {
      return task.reject(new TideraceError("too-much-waiting", "too much waits to be sent"));
    }
    if (link?.welcome) return task.run(link);
    this.postponed.push(task);
    this.postponedBytes += task.size;
  }

  private request<Answer = void>(
    type: number,
    size: number,
    build: (id: number, link: Link) => Writer,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const run = (link: Link) => void link.request<Answer>(type, (id) => build(id, link)).then(resolve, reject);
      this.whenConnected({ size, run, reject });
    });
  }

  private async publish(
    kind: m.Kind,
    path: string,
    flags: number,
    value: unknown,
    options: PublishOptions,
  ): Promise<void> {
    const encoded = encodeValue(value, options);
    const { expires } = options;
    await this.request(m.PUBLISH, encoded.size, (id, link) => {
      const known = this.declare(link, kind, path);
      const out = new Writer().varint(id).u8(flags | encoded.flags | (expires === undefined ? 0 : m.EXPIRES));
      out.varint(known);
      if (!known) out.u8(kind).string(path);
      if (expires !== undefined) out.varint(Math.ceil(expires));
      encoded.write(out);
      return out;
    });
  }

  /** From the second time on a path is published to, a number stands for it. Zero: it is to be written. */
  private declare(link: Link, kind: m.Kind, path: string): number {
    const key = kind + path;
    const known = this.declared.get(key);
    if (known) return known;
    const max = link.welcome!.declarationsMax;
    const next = known === 0 && this.declarations < max ? ++this.declarations : 0;
    if (next) link.send(m.DECLARE, new Writer().varint(next).u8(kind).string(path));
    if (next || this.declared.size < max) this.declared.set(key, next);
    return next;
  }

  private begin(
    link: Link,
    service: string,
    value: unknown,
    options: ValueOptions & { last: boolean; timeout: number },
  ): Conversation {
    return this.exchanges.call(
      (type, payload) => link.send(type, payload),
      (out) => out.varint(0).u8(m.SERVICE_KIND).string(service),
      value,
      options,
    );
  }

  private settler(interest: Interest): (home: number, number: number, accept: boolean) => void {
    const link = this.connector.link!;
    const settler = new Settler((home, outcome, ranges) => {
      const id = this.hub.idOf(interest);
      if (id < 0) return;
      const out = new Writer().varint(0).varint(id).varint(home).u8(outcome).varint(ranges.length);
      for (const [first, more] of ranges) out.varint(first).varint(more);
      link.send(m.SETTLE, out);
    });
    return (home, number, accept) => settler.add(home, number, accept);
  }
}
