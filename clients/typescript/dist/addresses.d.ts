/**
 * Which address is tried next, and by which transport. Randomness and time are passed in, and so is what came of a try.
 * Invariant: a round tries each pair once, the best transport of every address before a lesser one of any, and no address
 * that has refused this client for good.
 */
import type { TransportName } from "./transport/transport.js";
/** A server's address, and what is known of it. */
export interface Address {
    /** By `http:` or `https:`, with a path that ends in `/`. */
    readonly base: URL;
    /** A server has named it; the application has not. */
    readonly named: boolean;
    /** The transport that has worked there, and when it did last. */
    works?: TransportName | undefined;
    since: number;
    refused: boolean;
    /** Where in the next round: before others if a server has just named it, behind them if it has just been lost. */
    bias: number;
}
export interface Try {
    address: Address;
    transport: TransportName;
}
/** How a try, or the connection that came of it, has ended. */
export interface Ending {
    /** Whether the server said so itself. */
    told: boolean;
    /** Whether this client may come again. */
    again: boolean;
    /** Where the server sends this client. */
    elsewhere?: readonly string[];
}
export declare class Addresses {
    private readonly random;
    private known;
    private present;
    private left;
    constructor(bases: readonly URL[], random: () => number);
    /** Begins a round; `attempt` counts those before it that came to nothing. */
    round(transports: readonly TransportName[], attempt: number, now: number): void;
    /** What to try now; nothing when the round is over. */
    next(): Try | undefined;
    /** Whether the round goes on. */
    get more(): boolean;
    /** The present try has become a connection. */
    reached(now: number): void;
    /** The present try, or the connection that came of it, has ended; says whether this client has to stop. */
    ended(wasReached: boolean, { told, again, elsewhere }: Ending): boolean;
    /** The network is another one: what has worked may not, and the other way round. */
    forget(): void;
    private add;
}
/** The address as this client uses it. */
export declare function baseOf(url: string | URL, page?: string): URL;
