import { type Backoff } from "./backoff.js";
import type { Reader, Writer } from "./bytes.js";
import { TideraceError } from "./error.js";
import { Link, type Counters, type Timing, type Welcome } from "./link.js";
import type { TransportName, WebSocketClass } from "./transport/transport.js";
/** How the client is connected. */
export type State = {
    status: "connecting";
    attempt: number;
    transport: TransportName;
    address: string;
} | {
    status: "connected";
    transport: TransportName;
    address: string;
    name: string;
    server: string;
} | {
    status: "waiting";
    /** How many rounds of all addresses in a row have failed. */
    attempt: number;
    /** Milliseconds until the next; infinite while paused. */
    delay: number;
    reason: TideraceError;
} | {
    status: "closed";
    reason: TideraceError;
};
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
export declare class Connector {
    private readonly options;
    private readonly counters;
    private readonly events;
    state: State;
    link: Link | undefined;
    private round;
    private attempt;
    private advisedMs;
    private timer;
    private readonly addresses;
    private socketClass;
    private readonly unwatch;
    constructor(options: ConnectorOptions, counters: Counters, events: ConnectorEvents);
    /** Connects now, if there is no connection; ends a pause. */
    start(): void;
    /** Gives the connection up, until `start`. */
    pause(): void;
    /** Connects anew by these transports. */
    use(transports: readonly TransportName[]): void;
    close(reason: TideraceError): void;
    private get isPaused();
    private wake;
    private leave;
    private enter;
    private begin;
    private connect;
    private open;
    private lost;
    /** The platform's, the application's, or that of the package `ws` if it is installed. */
    private webSocket;
}
