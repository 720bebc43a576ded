/** Services: requests with one answer, and conversations (docs/protocol.md, section 9). */
import { type Reader, Writer } from "./bytes.js";
import { type Properties, type ValueOptions } from "./content.js";
import { Emitter } from "./emitter.js";
import { TideraceError } from "./error.js";
import type { Interest, Wish } from "./interest.js";
import type { Keeper } from "./topics.js";
/** Writes a message on the connection that an exchange lives on. */
type Send = (type: number, payload: Writer) => void;
/**
 * One end of an exchange: values in both directions, in order, until both sides have said their last.
 * Iterating gives what the other side says; it throws if the exchange ended before its last word.
 */
export declare class Conversation<In = unknown, Out = unknown> implements AsyncIterable<In> {
    private readonly number;
    private readonly side;
    private readonly transmit;
    private readonly over;
    /** Properties of the other side's first message. */
    properties: Properties;
    private readonly inbox;
    private said;
    private heard;
    private ended;
    constructor(number: number, side: 0 | 1, transmit: Send, over: () => void);
    /** Whether the other side has nothing more to say, or all is over. */
    get done(): boolean;
    /** Says something. */
    send(value: Out, options?: ValueOptions & {
        last?: boolean;
    }): void;
    /** Says the last, and no more; without a value it says only that. */
    end(value?: Out, options?: ValueOptions): void;
    /** Ends it for both sides at once. */
    close(reason?: string): void;
    [Symbol.asyncIterator](): AsyncIterator<In>;
    /** The next value; `undefined` after the last. */
    next(): Promise<In | undefined>;
    private finishIfOver;
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
export declare class Responder<In = unknown, Out = unknown> extends Emitter<{
    error: TideraceError;
}> implements Interest {
    private readonly keeper;
    readonly path: string;
    private readonly handler;
    readonly wish: Wish;
    confirmed: boolean;
    readonly ready: Promise<void>;
    private outcome;
    constructor(keeper: Keeper, path: string, handler: ServiceHandler<In, Out>, options?: ServeOptions);
    /** No more calls come; those that are open may be answered. */
    stop(): Promise<void>;
    begun(): void;
    failed(error: TideraceError): void;
    recovered(): void;
    restarted(): void;
    lost(): void;
    update(): void;
    queued(): void;
}
/** All exchanges of one client; they do not outlive its connection. */
export declare class Exchanges {
    private readonly open;
    private nextCall;
    /** Begins a call. */
    call(send: Send, service: (out: Writer) => void, value: unknown, options: ValueOptions & {
        last: boolean;
        timeout: number;
    }): Conversation;
    /** Takes EXCHANGE; `find` says who serves. */
    exchange(input: Reader, send: Send, find: (announced: number, id: number) => Interest | undefined): void;
    ended(input: Reader): void;
    down(reason: TideraceError): void;
}
export {};
