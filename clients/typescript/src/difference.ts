/**
 * Makes deltas of codec 1 (docs/protocol.md, section 8). A module of its own, since pages that only listen need only
 * apply them.
 */

/** What has changed of a body: all between what is the same at its beginning and at its end. */
export function makeDelta(old: Uint8Array, body: Uint8Array): Uint8Array {
  const most = Math.min(old.length, body.length);
  let prefix = 0;
  while (prefix < most && old[prefix] === body[prefix]) prefix++;
  let suffix = 0;
  while (suffix < most - prefix && old[old.length - 1 - suffix] === body[body.length - 1 - suffix]) suffix++;
  const middle = body.subarray(prefix, body.length - suffix);
  const head = [...varint(prefix), ...varint(suffix), ...(middle.length ? varint(middle.length * 4 + 1) : [])];
  const delta = new Uint8Array(head.length + middle.length);
  delta.set(head);
  delta.set(middle, head.length);
  return delta;
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
}
