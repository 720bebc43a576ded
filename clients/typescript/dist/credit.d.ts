/**
 * Credit: how much the server may send before it hears more from us. Bytes are given back as soon as
 * they are taken in, unless too much waits for the application; then the server waits as well, and its
 * topics' policies say what becomes of the rest.
 */
import { Writer } from "./bytes.js";
export declare class Credit {
    private readonly window;
    /** Received and not given back. */
    private owed;
    /** What waits for the application. */
    private held;
    private send;
    /** A window of 0 bytes means no limit. */
    constructor(window: number);
    begin(send: (payload: Writer) => void): void;
    end(): void;
    received(bytes: number): void;
    hold(bytes: number): void;
    grant(): void;
}
