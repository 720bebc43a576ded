/**
 * Values and the bytes of bodies: JSON unless said otherwise, bytes as bytes, and the properties
 * beside them.
 */
import { Writer } from "./bytes.js";
/** Named values that go with a message. */
export type Properties = Record<string, string>;
/** How a value is to be sent. */
export interface ValueOptions {
    /** The content type; by default JSON, and `application/octet-stream` for bytes. */
    type?: string;
    /** Named values that go with it. */
    properties?: Properties;
}
/** A value ready to be written. */
export interface Encoded {
    /** Content bits, and `0x04` if there are properties. */
    flags: number;
    /** Properties, if there are, and body. */
    write(into: Writer): void;
    size: number;
}
export declare function encodeValue(value: unknown, options?: ValueOptions): Encoded;
export declare function decodeValue(content: number, block: Uint8Array | undefined, body: Uint8Array): unknown;
export declare function decodeProperties(block: Uint8Array): Properties;
