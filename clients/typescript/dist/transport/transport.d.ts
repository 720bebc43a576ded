/** What carries messages: WebSocket or long polling. */
import type { TideraceError } from "../error.js";
export type TransportName = "websocket" | "polling";
/** One connection. After `closed` was told, or `cut` called, nothing more is told. */
export interface Transport {
    /** Bytes given to `send` that have not left yet. */
    readonly buffered: number;
    send(message: Uint8Array): void;
    /** Ends in good order: what was sent still goes out. */
    close(): void;
    /** Drops everything, as a broken network would. */
    cut(): void;
}
export interface TransportEvents {
    opened(): void;
    received(message: Uint8Array, wireBytes: number): void;
    /** It never opened, or has ended; with what the server says if it lets nobody in from here, however often it is asked. */
    closed(reason: string, refused?: TideraceError): void;
}
/** The smallest part of WebSocket's interface that is used; browsers, Node 22 and `ws` have it. */
export interface WebSocketLike {
    binaryType: string;
    readonly bufferedAmount: number;
    onopen: ((event: never) => void) | null;
    onmessage: ((event: never) => void) | null;
    onclose: ((event: never) => void) | null;
    onerror: ((event: never) => void) | null;
    send(data: Uint8Array): void;
    close(code?: number, reason?: string): void;
}
export type WebSocketClass = new (url: string, protocols?: string[]) => WebSocketLike;
/** What the platform brings. */
export interface Platform {
    WebSocket?: WebSocketClass | undefined;
    fetch: typeof fetch;
    /** Milliseconds for the answer to a request that the server does not hold. */
    requestMs: number;
}
