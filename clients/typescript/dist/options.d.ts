import { Writer } from "./bytes.js";
import type { ConnectorOptions } from "./connector.js";
import type { TransportName, WebSocketClass } from "./transport/transport.js";
export interface ConnectOptions {
    /** A token, or what gets one; asked again before each connection. */
    token?: string | (() => string | Promise<string>);
    /** Name and password, instead of a token. */
    login?: string;
    password?: string;
    /** What the server's operators see of this client. */
    name?: string;
    /** The best first; default WebSocket, then long polling. */
    transports?: readonly TransportName[];
    /** How long to wait before connecting again: a random part of a window that doubles. */
    reconnect?: {
        /** The first window in ms, unless the server advises one; default 1,000. */
        base?: number;
        /** The largest; default 30,000. */
        max?: number;
    };
    /** Milliseconds for connecting, WELCOME included; default 8,000. */
    connectTimeout?: number;
    /** Milliseconds for the answer to a ping; default 8,000. */
    pongTimeout?: number;
    /** Bytes that may be under way to this client; default 4 MiB, 0 for no limit. */
    window?: number;
    /** Bytes that may wait to be sent; default 4 MiB. */
    sendMax?: number;
    /** In place of the platform's, such as that of the package `ws`. */
    WebSocket?: WebSocketClass;
    fetch?: typeof fetch;
}
/** Where the server is: one address, or several of servers that are as good as each other. */
export type Addressed = string | URL | readonly (string | URL)[];
export interface Settings extends ConnectorOptions {
    token?: ConnectOptions["token"];
    login?: string | undefined;
    password?: string | undefined;
    name: string;
    window: number;
    sendMax: number;
}
export declare function settingsOf(addressed: Addressed | undefined, options: ConnectOptions): Settings;
/** The field `auth` of HELLO and LOGIN. */
export declare function credentials(from: {
    token?: string | undefined;
    login?: string | undefined;
    password?: string | undefined;
}): Writer;
