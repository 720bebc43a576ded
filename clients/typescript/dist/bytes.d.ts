/**
 * Bytes of the protocol: varints, strings and blocks. Every read is checked against the end; what
 * does not fit is a `TideraceError`, never a wrong value.
 */
import { TideraceError } from "./error.js";
export declare const utf8: (text: string) => Uint8Array;
export declare const text: (bytes: Uint8Array) => string;
/** Appends fields to a growing block. */
export declare class Writer {
    private block;
    length: number;
    private room;
    u8(value: number): this;
    varint(value: number): this;
    /** Bytes as they are. */
    raw(bytes: Uint8Array): this;
    /** Bytes behind their length. */
    bytes(bytes: Uint8Array): this;
    string(value: string): this;
    /** What was written; the block is not used again. */
    done(): Uint8Array;
}
/** Takes fields from the front of a block. */
export declare class Reader {
    readonly block: Uint8Array;
    at: number;
    readonly end: number;
    constructor(block: Uint8Array, at?: number, end?: number);
    get empty(): boolean;
    u8(): number;
    u16le(): number;
    /** At most 2^53 is exact; the protocol promises that where it is read as a number. */
    varint(): number;
    /** A view of the next bytes. */
    take(length: number): Uint8Array;
    bytes(): Uint8Array;
    string(): string;
    rest(): Uint8Array;
}
export declare function malformed(): TideraceError;
