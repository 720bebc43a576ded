/** What goes wrong: a short name for programs, a sentence for people. */
/**
 * `code` is one of the server's names (docs/close-codes.md), or one of the client's own:
 * `closed` (by `close()`), `connection-lost`, `unreachable`, `timeout`, `aborted`,
 * `too-much-waiting` (what waits to be sent has reached `sendMax`).
 */
export declare class TideraceError extends Error {
    readonly code: string;
    /** The server's number for the code, if it came from there. */
    readonly number: number;
    constructor(code: string, message: string, 
    /** The server's number for the code, if it came from there. */
    number?: number);
}
export declare const asError: (thrown: unknown) => Error;
