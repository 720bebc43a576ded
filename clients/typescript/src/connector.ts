/**
 * Keeps one connection: connects to one of the addresses, and again after a loss.
 *
 *   connecting ─▶ connected ─▶ waiting ─▶ connecting …      any ─▶ closed
 *
 * Invariant: at most one link lives; a link that was replaced is not heard any more.
 */
import { Addresses, type Try } from "./addresses.js";
import { delayMs, type Backoff } from "./backoff.js";
import type { Reader, Writer } from "./bytes.js";
import { asError, TideraceError } from "./error.js";
import { Link, type Counters, type End, type Timing, type Welcome } from "./link.js";
import { watch } from "./surroundings.js";
import { openPolling } from "./transport/polling.js";
import type { Platform, TransportName, WebSocketClass } from "./transport/transport.js";
import { openWebSocket } from "./transport/websocket.js";

/** How the client is connected. */
export type State =
  | { status: "connecting"; attempt: number; transport: TransportName; address: string }
  | { status: "connected"; transport: TransportName; address: string; name: string; server: string }
  | {
      status: "waiting";
      /** How many rounds of all addresses in a row have failed. */
      attempt: number;
      /** Milliseconds until the next; infinite while paused. */
      delay: number;
      reason: TideraceError;
    }
  | { status: "closed"; reason: TideraceError };

export interface ConnectorOptions {
  bases: readonly URL[];
  transports: readonly TransportName[];
  backoff: Backoff;
  timing: Timing;
  WebSocket?: WebSocketClass | undefined;
  fetch: typeof fetch;
}

export interface ConnectorEvents {
  /** The first message of a connection; asked for anew each time. */
  hello(): Promise<Writer>;
  up(link: Link, welcome: Welcome): void;
  message(type: number, input: Reader, size: number): void;
  settled(): void;
  /** A connection on which WELCOME had come is gone. */
  down(reason: TideraceError): void;
  state(state: State): void;
}

export class Connector {
  state: State = { status: "waiting", attempt: 0, delay: 0, reason: new TideraceError("paused", "not begun") };
  link: Link | undefined;
  private round = 0;
  private attempt = 0;
  private advisedMs = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly addresses: Addresses;
  private socketClass: WebSocketClass | undefined;
  private readonly unwatch: () => void;

  constructor(
    private readonly options: ConnectorOptions,
    private readonly counters: Counters,
    private readonly events: ConnectorEvents,
  ) {
    this.addresses = new Addresses(options.bases, Math.random);
    this.unwatch = watch({
      seen: () => this.wake(false),
      online: () => this.wake(true),
      offline: () => this.link?.probe(),
    });
  }

  /** Connects now, if there is no connection; ends a pause. */
  start(): void {
    if (this.state.status === "waiting") this.begin();
  }

  /** Gives the connection up, until `start`. */
  pause(): void {
    if (this.state.status === "closed") return;
    const reason = new TideraceError("paused", "paused by the application");
    this.leave(reason);
    this.enter({ status: "waiting", attempt: 0, delay: Infinity, reason });
  }

  /** Connects anew by these transports. */
  use(transports: readonly TransportName[]): void {
    this.options.transports = transports;
    this.addresses.forget();
    if (this.state.status === "closed" || this.isPaused) return;
    this.leave(new TideraceError("connection-lost", "another transport was chosen"));
    this.begin();
  }

  close(reason: TideraceError): void {
    if (this.state.status === "closed") return;
    this.unwatch();
    this.leave(reason);
    this.enter({ status: "closed", reason });
  }

  private get isPaused(): boolean {
    return this.state.status === "waiting" && this.state.delay === Infinity;
  }

  private wake(network: boolean): void {
    if (this.state.status === "waiting" && !this.isPaused) {
      if (network) this.addresses.forget();
      this.begin();
    } else if (this.state.status === "connected") {
      this.link?.probe();
    }
  }

  private leave(reason: TideraceError): void {
    this.round++;
    clearTimeout(this.timer);
    const link = this.link;
    this.link = undefined;
    link?.close(reason);
    if (link?.welcome) this.events.down(reason);
  }

  private enter(state: State): void {
    this.state = state;
    this.events.state(state);
  }

  private begin(): void {
    clearTimeout(this.timer);
    this.addresses.round(this.options.transports, this.attempt, Date.now());
    void this.connect();
  }

  private async connect(): Promise<void> {
    const round = ++this.round;
    const attempted = this.addresses.next()!;
    const { address, transport } = attempted;
    this.enter({ status: "connecting", attempt: this.attempt, transport, address: address.base.href });
    try {
      const { fetch, timing } = this.options;
      const platform: Platform = { fetch, requestMs: timing.pongMs * 2 };
      if (transport === "websocket") platform.WebSocket = await this.webSocket();
      const hello = await this.events.hello();
      if (round === this.round) this.open(round, attempted, platform, hello);
    } catch (thrown) {
      if (round === this.round) this.lost(undefined, notOpened(asError(thrown).message));
    }
  }

  private open(round: number, { address: { base }, transport }: Try, platform: Platform, hello: Writer): void {
    const current = () => round === this.round;
    const link: Link = new Link(
      (events) =>
        transport === "websocket"
          ? openWebSocket(base, platform.WebSocket!, events)
          : openPolling(base, platform, events),
      hello,
      this.options.timing,
      this.counters,
      {
        welcomed: (welcome) => {
          if (!current()) return;
          this.link = link;
          this.addresses.reached(Date.now());
          this.attempt = 0;
          this.advisedMs = welcome.jitterMs;
          const { name, server } = welcome;
          this.enter({ status: "connected", transport, address: base.href, name, server });
          if (current()) this.events.up(link, welcome);
        },
        message: (type, input, size) => {
          if (current() && link.welcome) this.events.message(type, input, size);
        },
        settled: () => this.events.settled(),
        closed: (end) => {
          if (current()) this.lost(link, end);
        },
      },
    );
    if (current()) this.link = link;
  }

  private lost(link: Link | undefined, end: End): void {
    this.link = undefined;
    if (end.jitterMs !== undefined) this.advisedMs = end.jitterMs;
    const wasReached = !!link?.welcome;
    const over = this.addresses.ended(wasReached, end);
    const round = ++this.round;
    if (wasReached) this.events.down(end.error);
    if (over) {
      this.unwatch();
      this.round++;
      return this.enter({ status: "closed", reason: end.error });
    }
    // The application may have closed, paused or switched when it was told.
    if (round !== this.round) return;
    if (this.addresses.more) return void this.connect();
    const delay = delayMs(this.attempt++, this.advisedMs, this.options.backoff);
    this.timer = setTimeout(() => this.begin(), delay);
    this.enter({ status: "waiting", attempt: this.attempt, delay, reason: end.error });
  }

  /** The platform's, the application's, or that of the package `ws` if it is installed. */
  private async webSocket(): Promise<WebSocketClass> {
    let found = this.options.WebSocket ?? this.socketClass;
    found ??= (globalThis as { WebSocket?: WebSocketClass }).WebSocket;
    if (!found) {
      // A name put together is one that bundlers do not follow: browsers never come here.
      const name = ["w", "s"].join("");
      const loaded = (await import(/* webpackIgnore: true */ /* @vite-ignore */ name)) as {
        WebSocket: WebSocketClass;
      };
      found = loaded.WebSocket;
    }
    return (this.socketClass = found);
  }
}

function notOpened(message: string): End {
  return { error: new TideraceError("unreachable", message), told: false, again: true };
}
