/** How long to wait before the next attempt: a random part of a window that grows. */
export interface Backoff {
    /** The first window, unless the server advises one. */
    baseMs: number;
    /** No window is larger. */
    maxMs: number;
}
/** `attempt` is 0 for the first one after a connection was lost. */
export declare function delayMs(attempt: number, advisedMs: number, backoff: Backoff, random?: () => number): number;
