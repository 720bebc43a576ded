/**
 * Topics: publishing, and subscriptions that miss nothing unnoticed. Of each topic of a subscription
 * the version of the last message is kept across connections; a jump is told as a gap before the
 * message behind it (docs/protocol.md, section 6).
 */
import type { Reader } from "./bytes.js";
import { type Properties, type ValueOptions } from "./content.js";
import { Emitter } from "./emitter.js";
import { TideraceError } from "./error.js";
import type { Interest, Wish } from "./interest.js";
import * as m from "./messages.js";
/** One message of a topic. */
export declare class Update<T = unknown> {
    /** The topic, also for subscriptions to patterns. */
    readonly topic: string;
    /** The topic's count of messages. */
    readonly version: number;
    /** The topic has no current value any more. */
    readonly removed: boolean;
    /** The body as it is; not to be changed. */
    readonly bytes: Uint8Array;
    private readonly content;
    private readonly block;
    private decoded;
    constructor(
    /** The topic, also for subscriptions to patterns. */
    topic: string, 
    /** The topic's count of messages. */
    version: number, 
    /** The topic has no current value any more. */
    removed: boolean, 
    /** The body as it is; not to be changed. */
    bytes: Uint8Array, content: number, block: Uint8Array | undefined);
    /** The value: decoded when first asked for. `undefined` when removed. */
    get value(): T;
    get properties(): Properties;
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
export type Replay = {
    last: number;
} | {
    version: number;
} | {
    since: number | Date;
};
export interface SubscriptionEvents {
    gap: Gap;
    /** After a new connection: whether all that was missed comes now. */
    recovered: {
        complete: boolean;
    };
    /** The subscription has gained a topic: all there are at first, also after a new connection. */
    joined: {
        topic: string;
        spec: Record<string, unknown>;
    };
    /** The subscription has lost a topic. */
    left: {
        topic: string;
        reason: "removed" | "not-authorised";
    };
    /** The subscription is over: refused or ended by the server. It is not made again on another connection. */
    error: TideraceError;
}
export type UpdateHandler<T> = (value: T, update: Update<T>) => unknown;
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
export declare class Subscription<T = unknown> extends Emitter<SubscriptionEvents> implements Interest, AsyncIterable<Update<T>> {
    private readonly keeper;
    readonly path: string;
    private readonly handler;
    private readonly options;
    readonly wish: Wish;
    confirmed: boolean;
    of: string | undefined;
    recallable: Map<string, number | undefined> | undefined;
    /** Values of another server came last, and are to be taken over once what was missed has come. */
    private strange;
    /** Settles when the server has confirmed it: every message published from then on comes. */
    readonly ready: Promise<void>;
    private settle;
    private readonly progress;
    private readonly inboxes;
    private over;
    constructor(keeper: Keeper, path: string, handler: UpdateHandler<T> | undefined, options?: SubscribeOptions);
    /** No more comes from now on; settles when the server knows. */
    unsubscribe(): Promise<void>;
    /** The updates from now on. Ends with the subscription; leaving the loop does not end that. */
    [Symbol.asyncIterator](): AsyncIterableIterator<Update<T>>;
    get stale(): boolean;
    begun(settled: boolean): void;
    failed(error: TideraceError): void;
    recovered(complete: boolean, continues: boolean, another: string | undefined, settles: boolean): void;
    lost(): void;
    restarted(): void;
    recall(): boolean;
    queued(): void;
    noticed(gained: boolean, topic: string, text: string): void;
    follows(path: string | undefined, version: number): void;
    private progressOf;
    update(flags: number, path: string | undefined, input: Reader): void;
    /** The whole body, or nothing if the delta does not fit. */
    private body;
    /** Subscribes again under another id. */
    private renew;
    private give;
    private gap;
    /** The next versions are compared with nothing. What this connection has sent stays known. */
    private forget;
    private end;
}
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
export declare class Topic<T = unknown> {
    private readonly publisher;
    readonly path: string;
    constructor(publisher: Publisher, path: string);
    /** Subscribes; values come to the handler, to asynchronous iterators of the subscription, or both. */
    subscribe(handler?: UpdateHandler<T> | SubscribeOptions, options?: SubscribeOptions): Subscription<T>;
    /** Settles when the server has it. What is not sent yet waits for a connection. */
    publish(value: T, options?: PublishOptions): Promise<void>;
    /** Removes the current value; subscribers get an update that says so. */
    remove(options?: ValueOptions): Promise<void>;
    /** The current value, `undefined` if there is none. */
    value(): Promise<T | undefined>;
}
