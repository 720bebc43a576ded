/** Deltas of codec 1 (docs/protocol.md, section 8): a new body made of pieces of the one before. */
import { malformed, Reader } from "./bytes.js";

/** The new body. */
export function applyDelta(old: Uint8Array, delta: Uint8Array): Uint8Array {
  const input = new Reader(delta);
  const prefix = input.varint();
  const suffix = input.varint();
  if (prefix + suffix > old.length) throw malformed();
  const pieces = [old.subarray(0, prefix)];
  let length = prefix + suffix;
  let cursor = prefix;
  while (!input.empty) {
    const head = input.varint();
    const count = Math.floor(head / 4);
    const kind = head % 4;
    if (count < 1 || kind > 2) throw malformed();
    let piece;
    if (kind === 1) {
      piece = input.take(count);
      cursor = Math.min(cursor + count, old.length);
    } else {
      if (kind === 2) {
        const move = input.varint();
        cursor += move % 2 ? -(move + 1) / 2 : move / 2;
      }
      if (cursor < 0 || cursor + count > old.length) throw malformed();
      piece = old.subarray(cursor, (cursor += count));
    }
    pieces.push(piece);
    length += count;
    if (length > BODY_BYTES_MAX) throw malformed();
  }
  pieces.push(old.subarray(old.length - suffix));
  const body = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    body.set(piece, at);
    at += piece.length;
  }
  return body;
}

/** Above what any server lets a body be by default. */
const BODY_BYTES_MAX = 256 * 1024 * 1024;
