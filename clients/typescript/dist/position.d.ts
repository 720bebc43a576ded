/**
 * How far the client has come (docs/protocol.md, section 7): the epoch, and by numbering the number of
 * the last message. Kept as the server says it and sent back when the connection is made anew.
 */
import { Reader } from "./bytes.js";
export declare class Position {
    private readonly epoch;
    private readonly homes;
    constructor(epoch: Uint8Array);
    /** Of which life of a server, to be compared. */
    get of(): string;
    /** Takes in the payload of a POSITION. */
    advance(input: Reader): void;
    encode(): Uint8Array;
}
