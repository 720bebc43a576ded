/** Queues: sending, and receiving with an outcome for each message. */
import type { Reader } from "./bytes.js";
import { type Properties, type ValueOptions } from "./content.js";
import { Emitter } from "./emitter.js";
import { TideraceError } from "./error.js";
import type { Interest, Wish } from "./interest.js";
import * as m from "./messages.js";
import type { Keeper } from "./topics.js";
/** Settles messages of the connection they came by; does nothing when that is gone. */
export type Settle = (home: number, number: number, accept: boolean) => void;
/** One message of a queue. It is given back if the connection ends before it was settled. */
export declare class QueueMessage<T = unknown> {
    readonly queue: string;
    readonly value: T;
    readonly properties: Properties;
    /** How often a consumer had it before, as far as the server knows, and did not accept it. */
    readonly redeliveries: number;
    private readonly settle;
    private settled;
    constructor(queue: string, value: T, properties: Properties, 
    /** How often a consumer had it before, as far as the server knows, and did not accept it. */
    redeliveries: number, settle: (accept: boolean) => void);
    /** The topic that it was published to, if it comes by a durable subscription. */
    get topic(): string | undefined;
    /** It is dealt with. */
    accept(): void;
    /** It is given back, to be delivered again. */
    reject(): void;
    private finish;
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
export declare class Consumer<T = unknown> extends Emitter<{
    error: TideraceError;
    end: void;
}> implements Interest, AsyncIterable<T> {
    private readonly keeper;
    readonly path: string;
    private readonly handler;
    private readonly browses;
    readonly wish: Wish;
    confirmed: boolean;
    /** Settles when the server has confirmed it. */
    readonly ready: Promise<void>;
    private outcome;
    private readonly inbox;
    private settle;
    private readonly running;
    private stopping;
    constructor(keeper: QueueKeeper, path: string, handler: QueueHandler<T> | undefined, options?: ReceiveOptions & BrowseOptions, browses?: number, makes?: object);
    /** No more comes. What handlers have begun is waited for; the rest goes back to the queue. */
    stop(): Promise<void>;
    /**
     * The values, for consumers without a handler. One counts as dealt with when the loop asks for the
     * next; leaving the loop gives the present one back and stops the consumer.
     */
    [Symbol.asyncIterator](): AsyncGenerator<T, void>;
    begun(): void;
    failed(error: TideraceError): void;
    recovered(): void;
    restarted(): void;
    update(): void;
    lost(): void;
    browsed(): void;
    queued(path: string | undefined, input: Reader): void;
    private give;
    private handle;
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
/** What a queue asks of its client. */
export interface Sender extends QueueKeeper {
    publish(kind: m.Kind, path: string, flags: number, value: unknown, options: SendOptions): Promise<void>;
}
/** A queue: each message goes to one consumer. */
export declare class Queue<T = unknown> {
    private readonly sender;
    readonly path: string;
    constructor(sender: Sender, path: string, 
    /** @internal */
    makes?: object | undefined);
    /** Settles when the server has it; a persistent one, when it is stored. */
    send(value: T, options?: SendOptions): Promise<void>;
    /**
     * Consumes. A handler that returns, or whose promise resolves, accepts the message; one that throws,
     * or whose promise rejects, gives it back. Without a handler, iterate over what is returned.
     */
    receive(handler?: QueueHandler<T> | ReceiveOptions, options?: ReceiveOptions): Consumer<T>;
    /**
     * Shows the messages of the queue, which stay there: those that are there, in their order, or also what comes. Accepting
     * a message, or giving it back, only lets more come.
     */
    browse(handler?: QueueHandler<T> | BrowseOptions, options?: BrowseOptions): Consumer<T>;
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
export declare class DurableSubscription<T = unknown> extends Queue<T> {
    private readonly operate;
    readonly name: string;
    /**
     * Makes it, or changes what it gathers from now on; `receive` does so by itself. Everything that is published after it
     * settles is gathered.
     */
    create(): Promise<void>;
    /** Ends it, with all that it has gathered. Refused with `subscription-in-use` while somebody consumes from it. */
    delete(): Promise<void>;
}
/** Gathers outcomes of one turn and writes them as ranges. */
export declare class Settler {
    private readonly write;
    private readonly rows;
    private due;
    constructor(write: (home: number, outcome: number, ranges: [number, number][]) => void);
    add(home: number, number: number, accept: boolean): void;
    private flush;
}
