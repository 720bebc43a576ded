/**
 * `tiderace/topics`: what can be done with topics beyond publishing and subscribing. Works on a client's `operate`, and
 * is a module of its own so that pages that only listen need not load it.
 */
import type { Client } from "./client.js";
import type { Properties, ValueOptions } from "./content.js";
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
    history?: number | {
        count?: number;
        age?: number | string;
    };
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
export type Patch = {
    op: string;
    path: string;
    from?: string;
    value?: unknown;
}[];
/** A lock or claim that is held until it is given back or the connection is lost. */
export declare class Held {
    readonly name: string;
    /** Rises each time that somebody takes the lock: shown to others, they can tell a late holder. */
    readonly fence: number;
    private readonly giveBack;
    private readonly lost;
    private readonly forget;
    /** Aborted when it is not held any more: given back, or lost with the connection. */
    get signal(): AbortSignal;
    /** Gives it back. */
    release(): Promise<void>;
    private end;
}
/** One topic, to be created, changed, read and removed. */
export declare class ManagedTopic<T = unknown> {
    private readonly all;
    readonly path: string;
    /** The value that was set last, once it has been; each next one waits for it. */
    private base;
    /** Makes the topic known; whether it was there before. Refused if it is there with another specification. */
    create(spec?: TopicSpec, value?: T, options?: ValueOptions): Promise<boolean>;
    /** Gives it a value; the value's version. */
    set(value: T, { if: condition, spec, delta, ...options }?: SetOptions): Promise<number>;
    /** Changes places in its value, which is JSON; the new value's version. */
    patch(patch: Patch, options?: Pick<UpdateOptions, "if">): Promise<number>;
    /** Puts fields in place of those in its value (RFC 7386; `null` removes one); the new value's version. */
    merge(merge: unknown, options?: Pick<UpdateOptions, "if">): Promise<number>;
    /** Its value with its version, or `undefined` if there is no such topic. */
    get(): Promise<Entry<T> | undefined>;
    /** Removes the topic, its value and its history; whether it was there. */
    remove(): Promise<boolean>;
    /** The messages that it keeps, oldest first, page by page. */
    history(options?: HistoryOptions): AsyncGenerator<Event<T>, void>;
    /** Puts another value in place of an event of a time series; the new event's version. */
    amend(version: number, value: T, options?: ValueOptions): Promise<number>;
    /** From now on only this client may publish to it. */
    claim(): Promise<Held>;
    /** Sends a value, or how it differs from the one before. */
    private change;
    private update;
    private write;
}
/** All topics that a client may see. */
export declare class Topics {
    readonly client: Client;
    private reading;
    private readonly waiting;
    private testament;
    /** The server's views: topics that it makes of others. */
    readonly views: {
        put: (name: string, text: string) => Promise<void>;
        remove: (name: string) => Promise<void>;
        list: () => Promise<View[]>;
    };
    /** One topic. */
    at<T = unknown>(path: string): ManagedTopic<T>;
    /** The topics that a selector names, in the order of their paths, page by page. */
    fetch<T = unknown>(selector: string | string[], options?: FetchOptions): AsyncGenerator<Entry<T>, void>;
    /** Removes all topics that a selector names; how many. */
    remove(selector: string | string[]): Promise<number>;
    /** Takes a lock; waits for it for so many milliseconds if another client has it. */
    lock(name: string, options?: {
        timeout?: number | string;
    }): Promise<Held>;
    /** What is published if this client is lost: ends otherwise than by `close`. Kept across connections. */
    will(path: string, value: unknown, options?: ValueOptions & {
        retain?: boolean;
    }): Promise<void>;
    /** Takes the will back. */
    forgetWill(): Promise<void>;
    /** How this client's session fares at the server. */
    session(): Promise<SessionState>;
}
/** What a client can do with topics beyond publishing and subscribing. */
export declare function topicsOf(client: Client): Topics;
