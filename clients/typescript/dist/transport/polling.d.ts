import type { Platform, Transport, TransportEvents } from "./transport.js";
export declare function openPolling(base: URL, platform: Platform, events: TransportEvents): Transport;
export declare function fromBase64(encoded: string): Uint8Array;
export declare function toBase64(bytes: Uint8Array): string;
