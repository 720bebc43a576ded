/** Services: requests with one answer, and conversations (docs/protocol.md, section 9). */
import { type Reader, Writer } from "./bytes.js";
import { decodeProperties, decodeValue, encodeValue, type Properties, type ValueOptions } from "./content.js";
import { Emitter } from "./emitter.js";
import { asError, TideraceError } from "./error.js";
import { Inbox } from "./inbox.js";
import type { Interest, Wish } from "./interest.js";
import { after, readError } from "./link.js";
import * as m from "./messages.js";
import type { Keeper } from "./topics.js";

/** Writes a message on the connection that an exchange lives on. */
type Send = (type: number, payload: Writer) => void;

/**
 * One end of an exchange: values in both directions, in order, until both sides have said their last.
 * Iterating gives what the other side says; it throws if the exchange ended before its last word.
 */
export class Conversation<In = unknown, Out = unknown> implements AsyncIterable<In> {
  /** Properties of the other side's first message. */
  properties: Properties = {};
  private readonly inbox = new Inbox<In>();
  private said = false;
  private heard = false;
  private ended = false;

  constructor(
    private readonly number: number,
    private readonly side: 0 | 1,
    private readonly transmit: Send,
    private readonly over: () => void,
  ) {}

  /** Whether the other side has nothing more to say, or all is over. */
  get done(): boolean {
    return this.heard || this.ended;
  }

  /** Says something. */
  send(value: Out, options: ValueOptions & { last?: boolean } = {}): void {
    if (this.said || this.ended) throw new TideraceError("closed", "this side has said its last");
    const encoded = encodeValue(value, options);
    const flags = encoded.flags | (options.last ? m.LAST : 0) | (this.side ? m.RESPONDER : 0);
    const payload = new Writer().varint(this.number).u8(flags);
    encoded.write(payload);
    this.transmit(m.SEND, payload);
    if (options.last) this.finishSaying();
  }

  /** Says the last, and no more; without a value it says only that. */
  end(value?: Out, options: ValueOptions = {}): void {
    if (this.said || this.ended) return;
    if (value !== undefined) return this.send(value, { ...options, last: true });
    const flags = m.LAST | m.BARE | (this.side ? m.RESPONDER : 0);
    this.transmit(m.SEND, new Writer().varint(this.number).u8(flags));
    this.finishSaying();
  }

  /** Ends it for both sides at once. */
  close(reason = "cancelled"): void {
    this.cancel(new TideraceError("closed", reason, DONE_CODE));
  }

  [Symbol.asyncIterator](): AsyncIterator<In> {
    return this.inbox;
  }

  /** The next value; `undefined` after the last. */
  async next(): Promise<In | undefined> {
    return (await this.inbox.next()).value as In | undefined;
  }

  /** @internal */
  cancel(error: TideraceError, sentence = error.message): void {
    if (this.ended) return;
    const code = error.number || (this.side ? FAILED_CODE : CANCELLED_CODE);
    this.transmit(m.CANCEL, new Writer().u8(this.side).varint(this.number).varint(code).string(sentence));
    this.fail(error);
  }

  /** @internal */
  take(flags: number, input: Reader): void {
    const block = flags & m.PROPERTIES ? input.bytes() : undefined;
    const body = input.rest();
    if (block && flags & m.FIRST) this.properties = decodeProperties(block);
    const last = !!(flags & m.LAST);
    if (!(flags & m.BARE)) {
      this.inbox.push(decodeValue(flags & m.CONTENT, block, body) as In);
    }
    if (last) {
      this.heard = true;
      this.inbox.end();
      this.finishIfOver();
    }
  }

  /** @internal */
  fail(error: TideraceError): void {
    if (this.ended) return;
    this.ended = true;
    this.inbox.end(error);
    this.over();
  }

  /** @internal */
  finishSaying(): void {
    this.said = true;
    this.finishIfOver();
  }

  private finishIfOver(): void {
    if (!this.said || !this.heard || this.ended) return;
    this.ended = true;
    this.over();
  }
}

export interface ServeOptions {
  /** Open exchanges at a time; default 100. */
  concurrency?: number;
}

/**
 * Answers: what it returns, or what its promise resolves to, is the answer. What it throws is told to
 * the caller. For more than one answer, or to hear more, it uses the conversation.
 */
export type ServiceHandler<In, Out> = (value: In, conversation: Conversation<In, Out>) => Out | Promise<Out>;

/** Serves a service; ends by `stop`. */
export class Responder<In = unknown, Out = unknown>
  extends Emitter<{ error: TideraceError }>
  implements Interest
{
  readonly wish: Wish;
  confirmed = false;
  readonly ready: Promise<void>;
  private outcome!: { resolve: () => void; reject: (error: Error) => void };

  constructor(
    private readonly keeper: Keeper,
    readonly path: string,
    private readonly handler: ServiceHandler<In, Out>,
    options: ServeOptions = {},
  ) {
    super();
    const flags = m.WINDOW | m.patternFlag(path);
    const window = { messages: options.concurrency ?? 100, bytes: 0 };
    this.wish = { kind: m.SERVICE_KIND, path, flags, window };
    this.ready = new Promise((resolve, reject) => (this.outcome = { resolve, reject }));
    this.ready.catch(() => {});
  }

  /** No more calls come; those that are open may be answered. */
  async stop(): Promise<void> {
    this.outcome.reject(new TideraceError("closed", "stopped"));
    await this.keeper.remove(this);
  }

  begun(): void {
    this.outcome.resolve();
  }

  failed(error: TideraceError): void {
    this.outcome.reject(error);
    this.emit("error", error);
  }

  recovered(): void {}
  restarted(): void {}
  lost(): void {}
  update(): void {}
  queued(): void {}

  /** @internal */
  async answer(conversation: Conversation<In, Out>): Promise<void> {
    try {
      const first = (await conversation.next()) as In;
      conversation.end(await this.handler(first, conversation));
    } catch (thrown) {
      const error = asError(thrown);
      const known = error instanceof TideraceError ? error : new TideraceError("call-failed", error.message);
      conversation.cancel(known);
    }
  }
}

/** All exchanges of one client; they do not outlive its connection. */
export class Exchanges {
  private readonly open = [new Map<number, Conversation>(), new Map<number, Conversation>()] as const;
  private nextCall = 1;

  /** Begins a call. */
  call(
    send: Send,
    service: (out: Writer) => void,
    value: unknown,
    options: ValueOptions & { last: boolean; timeout: number },
  ): Conversation {
    const number = this.nextCall;
    this.nextCall = after(number);
    const conversation = new Conversation(number, 0, send, () => this.open[0].delete(number));
    this.open[0].set(number, conversation);
    const encoded = encodeValue(value, options);
    const payload = new Writer().varint(number).u8(encoded.flags | (options.last ? m.LAST : 0));
    service(payload.varint(options.timeout));
    encoded.write(payload);
    send(m.CALL, payload);
    if (options.last) conversation.finishSaying();
    return conversation;
  }

  /** Takes EXCHANGE; `find` says who serves. */
  exchange(input: Reader, send: Send, find: (announced: number, id: number) => Interest | undefined): void {
    const flags = input.u8();
    const number = input.varint();
    const side = flags & m.RESPONDER ? 1 : 0;
    let conversation = this.open[side].get(number);
    if (side && flags & m.FIRST) {
      const interest = find(flags & m.EXCHANGE_ANNOUNCED, input.varint());
      conversation = new Conversation(number, 1, send, () => this.open[1].delete(number));
      if (!(interest instanceof Responder)) {
        return conversation.cancel(new TideraceError("closed", "nobody serves here any more"));
      }
      this.open[1].set(number, conversation);
      conversation.take(flags, input);
      return void (interest as Responder).answer(conversation);
    }
    conversation?.take(flags, input);
  }

  ended(input: Reader): void {
    const side = input.u8() ? 1 : 0;
    this.open[side].get(input.varint())?.fail(readError(input));
  }

  down(reason: TideraceError): void {
    const lost = new TideraceError("connection-lost", reason.message);
    for (const side of this.open) for (const conversation of [...side.values()]) conversation.fail(lost);
  }
}

/** `done`, `call-cancelled` and `call-failed` of the server's table. */
const DONE_CODE = 100;
const CANCELLED_CODE = 705;
const FAILED_CODE = 708;
