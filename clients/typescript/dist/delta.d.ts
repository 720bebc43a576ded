/** The new body. */
export declare function applyDelta(old: Uint8Array, delta: Uint8Array): Uint8Array;
