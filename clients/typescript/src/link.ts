/**
 * One connection of the native protocol, from HELLO to its end: cuts messages out of what arrives,
 * gathers what is sent, matches answers to requests and finds out when the other side is dead.
 * Invariant: every request is answered exactly once, at the latest by the end; `closed` is told once.
 */
import { malformed, Reader, Writer } from "./bytes.js";
import { TideraceError } from "./error.js";
import * as m from "./messages.js";
import type { Transport, TransportEvents } from "./transport/transport.js";

/** What the server says when it lets the client in. */
export interface Welcome {
  name: string;
  epoch: Uint8Array;
  pingMs: number;
  messageMax: number;
  subscriptionsMax: number;
  declarationsMax: number;
  jitterMs: number;
  server: string;
  /** What the server can do beyond the first edition of the protocol. */
  features: number;
}

/** Why a connection ended, and what the server advised. */
export interface End {
  error: TideraceError;
  /** Whether the server said so itself, by CLOSE. */
  told: boolean;
  again: boolean;
  jitterMs?: number;
  /** Addresses that the server names to go to. */
  elsewhere?: string[];
}

export interface LinkEvents {
  welcomed(welcome: Welcome): void;
  /** A message that is not about the connection itself; `size` in bytes, type and length included. */
  message(type: number, input: Reader, size: number): void;
  /** All messages of a transport message were told. */
  settled(): void;
  closed(end: End): void;
}

export interface Counters {
  bytesReceived: number;
  bytesSent: number;
}

export interface Timing {
  connectMs: number;
  pongMs: number;
}

interface Waiting {
  resolve: (answer: unknown) => void;
  reject: (error: TideraceError) => void;
}

export class Link {
  welcome: Welcome | undefined;
  /** Bytes that were given to be sent and have not left. */
  waiting = 0;
  private readonly transport: Transport;
  private readonly requests = new Map<number, Waiting>();
  private nextRequest = 1;
  private pings: (() => void)[] = [];
  private out: Uint8Array[] = [];
  private flushing = false;
  private heardAt = Date.now();
  private beat: ReturnType<typeof setInterval> | undefined;
  private deadline: ReturnType<typeof setTimeout> | undefined;
  private opened = false;
  private over = false;

  constructor(
    open: (events: TransportEvents) => Transport,
    hello: Writer,
    private readonly timing: Timing,
    private readonly counters: Counters,
    private readonly events: LinkEvents,
  ) {
    this.expect(timing.connectMs, "no connection in time");
    this.transport = open({
      opened: () => {
        this.opened = true;
        this.send(m.HELLO, hello);
      },
      received: (message, wireBytes) => this.received(message, wireBytes),
      closed: (reason, refused) => {
        if (refused) this.finish({ error: refused, told: true, again: false });
        else this.fail(new TideraceError("connection-lost", reason));
      },
    });
  }

  /** Bytes that have been given to `send` and are still here. */
  get buffered(): number {
    return this.waiting + this.transport.buffered;
  }

  send(type: number, payload: Writer): void {
    if (this.over) return;
    const message = new Writer().u8(type).varint(payload.length).raw(payload.done()).done();
    this.out.push(message);
    this.waiting += message.length;
    if (this.flushing) return;
    this.flushing = true;
    queueMicrotask(() => this.flush());
  }

  /** Sends what wants an answer: what is left to be read of it, or nothing. */
  request<Answer = void>(type: number, build: (id: number) => Writer): Promise<Answer> {
    return new Promise<never>((resolve, reject) => {
      if (this.over) return reject(new TideraceError("connection-lost", "the connection is gone"));
      const id = this.nextRequest;
      this.nextRequest = after(id);
      this.requests.set(id, { resolve: resolve as Waiting["resolve"], reject });
      this.send(type, build(id));
    });
  }

  /** Finds out now whether the other side is still there. */
  probe(): void {
    if (this.over || this.deadline) return;
    void this.roundTrip();
    this.expect(this.timing.pongMs, "the server fell silent");
  }

  /** Settles when the server has answered everything sent so far, or the connection is gone. */
  roundTrip(): Promise<void> {
    return new Promise((resolve) => {
      if (this.over) return resolve();
      this.pings.push(resolve);
      this.send(m.PING, new Writer());
    });
  }

  /** Takes leave. */
  close(error: TideraceError): void {
    if (this.over) return;
    if (this.opened) {
      this.send(m.BYE, new Writer());
      this.flush();
    }
    this.finish({ error, told: false, again: false });
    if (this.opened) this.transport.close();
    else this.transport.cut();
  }

  /** Drops the connection as a broken network would. */
  cut(): void {
    this.fail(new TideraceError("connection-lost", "the connection was cut"));
  }

  private fail(error: TideraceError): void {
    if (this.over) return;
    this.finish({ error, told: false, again: true });
    this.transport.cut();
  }

  private finish(end: End): void {
    this.over = true;
    clearInterval(this.beat);
    clearTimeout(this.deadline);
    const lost = new TideraceError("connection-lost", `no answer: ${end.error.message}`);
    for (const request of this.requests.values()) request.reject(lost);
    this.requests.clear();
    for (const pong of this.pings.splice(0)) pong();
    this.events.closed(end);
  }

  /** Ends the connection unless something is heard in time. */
  private expect(ms: number, reason: string): void {
    const asked = Date.now();
    this.deadline = setTimeout(() => {
      this.deadline = undefined;
      if (this.heardAt >= asked && this.welcome) return;
      // The whole page slept: what arrived meanwhile has yet to be told.
      if (Date.now() - asked > ms + 1000) return this.expect(ms, reason);
      this.fail(new TideraceError("connection-lost", reason));
    }, ms);
  }

  private flush(): void {
    this.flushing = false;
    while (this.out.length && !this.over) {
      if (this.transport.buffered > TRANSPORT_BYTES_MAX) {
        this.flushing = true;
        setTimeout(() => this.flush(), 10);
        return;
      }
      let count = 0;
      let length = 0;
      do length += this.out[count++]!.length;
      while (count < this.out.length && length + this.out[count]!.length <= BATCH_BYTES_MAX);
      const batch = new Uint8Array(length);
      let at = 0;
      for (const message of this.out.splice(0, count)) {
        batch.set(message, at);
        at += message.length;
      }
      this.waiting -= length;
      this.counters.bytesSent += length;
      this.transport.send(batch);
    }
  }

  private received(message: Uint8Array, wireBytes: number): void {
    if (this.over) return;
    this.heardAt = Date.now();
    this.counters.bytesReceived += wireBytes;
    try {
      const input = new Reader(message);
      while (!input.empty && !this.over) {
        const start = input.at;
        const type = input.u8();
        const end = input.varint() + input.at;
        if (end > input.end) throw malformed();
        this.take(type, new Reader(message, input.at, end), end - start);
        input.at = end;
      }
      if (!this.over) this.events.settled();
    } catch (thrown) {
      if (!(thrown instanceof TideraceError)) throw thrown;
      this.fail(thrown);
    }
  }

  private take(type: number, input: Reader, size: number): void {
    switch (type) {
      case m.WELCOME:
        return this.welcomed(input);
      case m.OK: {
        const first = input.varint();
        const more = input.varint();
        if (more >= this.requests.size) throw malformed();
        for (let id = first; id <= first + more; id++) this.answer(id)?.resolve(undefined);
        return;
      }
      case m.LOGGED_IN:
      case m.RESULT:
        return this.answer(input.varint())?.resolve(input);
      case m.ERROR: {
        const waiting = this.answer(input.varint());
        return waiting?.reject(readError(input));
      }
      case m.PONG:
        return this.pings.shift()?.();
      case m.CLOSE: {
        const error = readError(input);
        const advised = input.u8() === 1;
        // Being late is the network's fault as a rule, and the next one may be faster.
        const again = advised || error.code.endsWith("-timeout");
        const end: End = { error, told: true, again, jitterMs: input.varint(), elsewhere: [] };
        // Servers of before name none.
        if (!input.empty) for (let count = input.varint(); count > 0; count--) end.elsewhere!.push(input.string());
        this.finish(end);
        return this.transport.cut();
      }
      default:
        return this.events.message(type, input, size);
    }
  }

  private welcomed(input: Reader): void {
    if (this.welcome || input.varint() !== 1) throw malformed();
    input.varint();
    const welcome: Welcome = {
      name: input.string(),
      epoch: input.bytes().slice(),
      pingMs: input.varint(),
      messageMax: input.varint(),
      subscriptionsMax: input.varint(),
      declarationsMax: input.varint(),
      jitterMs: input.varint(),
      server: "",
      features: 0,
    };
    for (let count = input.varint(); count > 0; count--) input.varint();
    welcome.server = input.string();
    if (!input.empty) welcome.features = input.varint();
    this.welcome = welcome;
    clearTimeout(this.deadline);
    this.deadline = undefined;
    const every = Math.max(welcome.pingMs || PING_MS, 1000);
    this.beat = setInterval(() => {
      if (Date.now() - this.heardAt >= every * 0.9) this.probe();
    }, every);
    this.events.welcomed(welcome);
  }

  private answer(id: number): Waiting | undefined {
    const waiting = this.requests.get(id);
    this.requests.delete(id);
    return waiting;
  }
}

/** Numbers have 32 bits: behind the last one they begin anew. */
export const after = (number: number): number => (number % 0xffff_ffff) + 1;

/** Code, short name and sentence. */
export function readError(input: Reader): TideraceError {
  const number = input.varint();
  const code = input.string();
  return new TideraceError(code, input.string(), number);
}

/** Of one transport message, unless one message alone is larger. */
const BATCH_BYTES_MAX = 48 * 1024;
/** What is handed to the transport before it has to get some of it out. */
const TRANSPORT_BYTES_MAX = 1024 * 1024;
/** How often the server is asked for a sign of life if it does not say. */
const PING_MS = 25_000;
