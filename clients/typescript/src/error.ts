/** What goes wrong: a short name for programs, a sentence for people. */

/**
 * `code` is one of the server's names (docs/close-codes.md), or one of the client's own:
 * `closed` (by `close()`), `connection-lost`, `unreachable`, `timeout`, `aborted`,
 * `too-much-waiting` (what waits to be sent has reached `sendMax`).
 */
export class TideraceError extends Error {
  constructor(
    readonly code: string,
    message: string,
    /** The server's number for the code, if it came from there. */
    readonly number = 0,
  ) {
    super(message);
    this.name = "TideraceError";
  }
}

export const asError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown));
