/**
 * How far the client has come (docs/protocol.md, section 7): the epoch, and by numbering the number of
 * the last message. Kept as the server says it and sent back when the connection is made anew.
 */
import { Reader, Writer } from "./bytes.js";

export class Position {
  private readonly homes = new Map<number, number>();

  constructor(private readonly epoch: Uint8Array) {}

  /** Of which life of a server, to be compared. */
  get of(): string {
    return String(this.epoch);
  }

  /** Takes in the payload of a POSITION. */
  advance(input: Reader): void {
    while (!input.empty) this.homes.set(input.varint(), input.varint());
  }

  encode(): Uint8Array {
    const out = new Writer().raw(this.epoch).varint(this.homes.size);
    for (const [home, number] of [...this.homes].sort(([a], [b]) => a - b)) {
      out.varint(home).varint(number);
    }
    return out.done();
  }
}
