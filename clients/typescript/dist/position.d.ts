/**
 * How far the client has come (docs/protocol.md, section 7): the epoch, and by numbering the number of
 * the last message. Kept as the server says it and sent back when the connection is made anew.
 */
import { Reader } from "./bytes.js";
export declare class Position {
    readonly epoch: Uint8Array;
    private readonly homes;
    constructor(epoch: Uint8Array);
    isOf(epoch: Uint8Array): boolean;
    /** Takes in the payload of a POSITION. */
    advance(input: Reader): void;
    encode(): Uint8Array;
}
