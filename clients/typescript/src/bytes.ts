/**
 * Bytes of the protocol: varints, strings and blocks. Every read is checked against the end; what
 * does not fit is a `TideraceError`, never a wrong value.
 */
import { TideraceError } from "./error.js";

const encoder = new TextEncoder();
const lenient = new TextDecoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);
export const text = (bytes: Uint8Array): string => lenient.decode(bytes);

/** Appends fields to a growing block. */
export class Writer {
  private block = new Uint8Array(128);
  length = 0;

  private room(bytes: number): number {
    const at = this.length;
    this.length += bytes;
    if (this.length > this.block.length) {
      const larger = new Uint8Array(Math.max(this.length, this.block.length * 2));
      larger.set(this.block);
      this.block = larger;
    }
    return at;
  }

  u8(value: number): this {
    const at = this.room(1);
    this.block[at] = value;
    return this;
  }

  varint(value: number): this {
    while (value >= 0x80) {
      this.u8((value % 0x80) | 0x80);
      value = Math.floor(value / 0x80);
    }
    return this.u8(value);
  }

  /** Bytes as they are. */
  raw(bytes: Uint8Array): this {
    const at = this.room(bytes.length);
    this.block.set(bytes, at);
    return this;
  }

  /** Bytes behind their length. */
  bytes(bytes: Uint8Array): this {
    return this.varint(bytes.length).raw(bytes);
  }

  string(value: string): this {
    return this.bytes(utf8(value));
  }

  /** What was written; the block is not used again. */
  done(): Uint8Array {
    return this.block.subarray(0, this.length);
  }
}

/** Takes fields from the front of a block. */
export class Reader {
  constructor(
    readonly block: Uint8Array,
    public at = 0,
    readonly end = block.length,
  ) {}

  get empty(): boolean {
    return this.at >= this.end;
  }

  u8(): number {
    if (this.at >= this.end) throw malformed();
    return this.block[this.at++]!;
  }

  u16le(): number {
    return this.u8() + this.u8() * 256;
  }

  /** At most 2^53 is exact; the protocol promises that where it is read as a number. */
  varint(): number {
    let value = 0;
    let scale = 1;
    for (let count = 0; count < 10; count++, scale *= 128) {
      const byte = this.u8();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    throw malformed();
  }

  /** A view of the next bytes. */
  take(length: number): Uint8Array {
    if (length > this.end - this.at) throw malformed();
    this.at += length;
    return this.block.subarray(this.at - length, this.at);
  }

  bytes(): Uint8Array {
    return this.take(this.varint());
  }

  string(): string {
    return text(this.bytes());
  }

  rest(): Uint8Array {
    return this.take(this.end - this.at);
  }
}

export function malformed(): TideraceError {
  return new TideraceError("bad-frame", "the server sent a malformed message");
}
