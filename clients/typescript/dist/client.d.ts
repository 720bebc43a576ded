import { type State } from "./connector.js";
import { type ValueOptions } from "./content.js";
import { Emitter } from "./emitter.js";
import { TideraceError } from "./error.js";
import { type Addressed, type ConnectOptions } from "./options.js";
import { type DurableOptions, DurableSubscription, Queue } from "./queues.js";
import { Conversation, Responder, type ServeOptions, type ServiceHandler } from "./services.js";
import { Topic } from "./topics.js";
import type { TransportName } from "./transport/transport.js";
export interface ClientEvents {
    /** The connection's state has changed. */
    state: State;
    /** The server refused something that has no promise of its own to tell. */
    error: TideraceError;
}
/** What has been counted since the client was made. */
export interface Counts {
    /** As they came, without the frames of WebSocket and HTTP. */
    bytesReceived: number;
    bytesSent: number;
    updates: number;
    deltas: number;
    /** Bytes that deltas were shorter than the values they stood for. */
    deltaBytesSaved: number;
    /** Updates that had come before a loss and were sent again; not given to the application. */
    duplicates: number;
    gaps: number;
    connections: number;
}
export interface CallOptions extends ValueOptions {
    /** Milliseconds for the answer; default 30,000. */
    timeout?: number;
    signal?: AbortSignal;
}
export declare class Client extends Emitter<ClientEvents> {
    readonly counts: Counts;
    private readonly settings;
    private readonly connector;
    private readonly hub;
    private readonly exchanges;
    private readonly credit;
    private readonly keeper;
    private position;
    /** Of another server or another life of it, until that tells where this client is. */
    private renewed;
    private postponed;
    private postponedBytes;
    /** Paths published to on this connection: seen once, or declared under a number. */
    private declared;
    private declarations;
    constructor(addressed: Addressed | undefined, options?: ConnectOptions);
    /** How it is connected. */
    get state(): State;
    /** A topic, or with `*` a pattern of topics. */
    topic<T = unknown>(path: string): Topic<T>;
    /** A queue. */
    queue<T = unknown>(path: string): Queue<T>;
    /**
     * A durable subscription of that name to topics and patterns of topics: they feed a queue, whether anybody is connected
     * or not. Without topics, one that is there already.
     */
    durable<T = unknown>(name: string, topics?: string | string[], options?: DurableOptions): DurableSubscription<T>;
    /** Asks a service and waits for its answer. */
    call<Answer = unknown>(service: string, value?: unknown, options?: CallOptions): Promise<Answer>;
    /** Begins a conversation with a service; `first` is the first thing said. */
    converse<In = unknown, Out = unknown>(service: string, first?: Out, options?: ValueOptions & {
        timeout?: number;
    }): Promise<Conversation<In, Out>>;
    /** Answers calls of a service. */
    serve<In = unknown, Out = unknown>(service: string, handler: ServiceHandler<In, Out>, options?: ServeOptions): Responder<In, Out>;
    /** Shows a new token, on this connection and on those to come; gives the principal's name. */
    login(token: string): Promise<string>;
    /**
     * Does something with topics (docs/protocol.md, section 12), such as `{ do: "fetch", selector: "a/**" }`, and gives
     * what came of it. `body` is the value's bytes, if it is not in the operation. `tiderace/topics` knows all operations.
     */
    operate<Result = unknown>(operation: object, body?: Uint8Array): Promise<Result>;
    /** Gives up the connection until `resume`; subscriptions stay and are recovered then. */
    pause(): void;
    /** Connects at once if there is no connection. */
    resume(): void;
    /** Connects anew by these transports, the best first. */
    use(transports: readonly TransportName[]): void;
    /** Drops the connection as a broken network would: for demonstrations and tests. */
    cut(): void;
    /** Ends everything. */
    close(): void;
    private hello;
    private up;
    private down;
    private changed;
    private message;
    private add;
    /** Runs now, or when there is a connection. */
    private whenConnected;
    private request;
    private publish;
    /** From the second time on a path is published to, a number stands for it. Zero: it is to be written. */
    private declare;
    private begin;
    private settler;
}
