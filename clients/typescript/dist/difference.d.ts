/**
 * Makes deltas of codec 1 (docs/protocol.md, section 8). A module of its own, since pages that only listen need only
 * apply them.
 */
/** What has changed of a body: all between what is the same at its beginning and at its end. */
export declare function makeDelta(old: Uint8Array, body: Uint8Array): Uint8Array;
