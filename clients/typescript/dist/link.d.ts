/**
 * One connection of the native protocol, from HELLO to its end: cuts messages out of what arrives,
 * gathers what is sent, matches answers to requests and finds out when the other side is dead.
 * Invariant: every request is answered exactly once, at the latest by the end; `closed` is told once.
 */
import { Reader, Writer } from "./bytes.js";
import { TideraceError } from "./error.js";
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
export declare class Link {
    private readonly timing;
    private readonly counters;
    private readonly events;
    welcome: Welcome | undefined;
    /** Bytes that were given to be sent and have not left. */
    waiting: number;
    private readonly transport;
    private readonly requests;
    private nextRequest;
    private pings;
    private out;
    private flushing;
    private heardAt;
    private beat;
    private deadline;
    private opened;
    private over;
    constructor(open: (events: TransportEvents) => Transport, hello: Writer, timing: Timing, counters: Counters, events: LinkEvents);
    /** Bytes that have been given to `send` and are still here. */
    get buffered(): number;
    send(type: number, payload: Writer): void;
    /** Sends what wants an answer: what is left to be read of it, or nothing. */
    request<Answer = void>(type: number, build: (id: number) => Writer): Promise<Answer>;
    /** Finds out now whether the other side is still there. */
    probe(): void;
    /** Settles when the server has answered everything sent so far, or the connection is gone. */
    roundTrip(): Promise<void>;
    /** Takes leave. */
    close(error: TideraceError): void;
    /** Drops the connection as a broken network would. */
    cut(): void;
    private fail;
    private finish;
    /** Ends the connection unless something is heard in time. */
    private expect;
    private flush;
    private received;
    private take;
    private welcomed;
    private answer;
}
/** Numbers have 32 bits: behind the last one they begin anew. */
export declare const after: (number: number) => number;
/** Code, short name and sentence. */
export declare function readError(input: Reader): TideraceError;
