/** The parts that compute: bytes, deltas, values, positions, delays. */
import { delayMs } from "../../src/backoff.js";
import { Reader, Writer } from "../../src/bytes.js";
import { decodeProperties, decodeValue, encodeValue } from "../../src/content.js";
import { applyDelta } from "../../src/delta.js";
import { makeDelta } from "../../src/difference.js";
import { TideraceError } from "../../src/error.js";
import { Inbox } from "../../src/inbox.js";
import { after } from "../../src/link.js";
import { Position } from "../../src/position.js";
import { Settler } from "../../src/queues.js";
import { fromBase64, toBase64 } from "../../src/transport/polling.js";
import { equal, hex, ok, seeded, test, unhex } from "../harness.js";

/** A seeded source of numbers below `limit`. */
const random = (seed: number) => {
  const next = seeded(seed);
  return (limit: number) => Math.floor(next() * limit);
};

const bytes = (next: (limit: number) => number, length: number) =>
  Uint8Array.from({ length }, () => next(256));

test("pieces", "varints come back, up to 2^53", () => {
  for (const value of [0, 1, 127, 128, 300, 2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER]) {
    equal(new Reader(new Writer().varint(value).done()).varint(), value);
  }
  equal(hex(new Writer().varint(300).done()), "ac02");
  equal(new Reader(unhex("818000")).varint(), 1, "a padded one");
});

test("pieces", "what is cut short is an error, whatever it was", () => {
  const whole = new Writer().varint(300).string("näme").bytes(unhex("0102")).done();
  for (let end = 0; end < whole.length; end++) {
    const input = new Reader(whole.subarray(0, end));
    let error: unknown;
    try {
      input.varint();
      input.string();
      input.bytes();
    } catch (thrown) {
      error = thrown;
    }
    ok(error instanceof TideraceError, `no error at ${end}`);
  }
});

test("pieces", "deltas give what the vectors say", ({ vectors }) => {
  ok(vectors.deltas.length > 3, "no vectors");
  for (const { name, old, new: fresh, delta } of vectors.deltas) {
    equal(hex(applyDelta(unhex(old), unhex(delta))), fresh, name);
  }
});

test("pieces", "what is made of two values makes the second of the first", () => {
  const next = random(11);
  for (let round = 0; round < 5_000; round++) {
    const old = Uint8Array.from({ length: next(300) }, () => next(3));
    const at = next(old.length + 1);
    const fresh = Uint8Array.of(...old.subarray(0, at), ...bytes(next, next(4)), ...old.subarray(at + next(4)));
    const delta = makeDelta(old, fresh);
    equal(hex(applyDelta(old, delta)), hex(fresh));
    ok(delta.length <= 4 + 2 + 4 || old.length === 0, `${delta.length} bytes for a change of three`);
  }
  equal(hex(makeDelta(unhex(""), unhex(""))), "0000");
});

test("pieces", "no delta breaks anything or reads outside", () => {
  const next = random(7);
  let applied = 0;
  for (let round = 0; round < 20_000; round++) {
    const old = bytes(next, next(12));
    const delta = Uint8Array.from({ length: next(10) }, () => next(next(2) ? 8 : 256));
    try {
      applyDelta(old, delta);
      applied++;
    } catch (thrown) {
      ok(thrown instanceof TideraceError, `${String(thrown)} at ${hex(delta)}`);
    }
  }
  ok(applied > 200, `only ${applied} could be applied`);
});

test("pieces", "values come back", () => {
  const pass = (value: unknown, type?: string) => {
    const encoded = encodeValue(value, type === undefined ? {} : { type });
    const out = new Writer();
    encoded.write(out);
    const input = new Reader(out.done());
    const block = encoded.flags & 4 ? input.bytes() : undefined;
    return decodeValue(encoded.flags & 3, block, input.rest());
  };
  for (const value of [1, "text", null, true, [1, { a: "ö" }], { pair: "EUR-USD" }, unhex("00ff")]) {
    equal(pass(value), value);
  }
  equal(pass(undefined), undefined);
  equal(pass("plain", "text/plain"), "plain");
  equal(pass({ a: 1 }, "application/geo+json"), { a: 1 });
  equal(pass("<a/>", "text/xml"), "<a/>");
  equal(pass(unhex("0102").buffer), unhex("0102"));
});

test("pieces", "bodies that are not what they are said to be are given anyway", () => {
  equal(decodeValue(1, undefined, unhex("7b")), "{");
  equal(decodeValue(0, undefined, unhex("c3a4")), "ä");
  equal(decodeValue(0, undefined, unhex("ff")), unhex("ff"));
});

test("pieces", "properties are escaped, and the first of equal names counts", () => {
  const properties = { "a:b": "c\nd\\e\rf", x: "" };
  const out = new Writer();
  encodeValue(undefined, { properties }).write(out);
  equal(decodeProperties(new Reader(out.done()).bytes()), properties);
  equal(decodeProperties(new TextEncoder().encode("k:1\nk:2\nno colon\n")), { k: "1" });
});

test("pieces", "base64 is what everybody means by it", () => {
  equal(toBase64(unhex("00ff10")), "AP8Q");
  const next = random(3);
  for (const length of [0, 1, 2, 3, 8191, 8192, 20_000]) {
    const block = bytes(next, length);
    equal(hex(fromBase64(toBase64(block))), hex(block));
  }
});

test("pieces", "a position keeps the newest number of each home, rising by home", () => {
  const position = new Position(unhex("ac02"));
  equal(hex(position.encode()), "ac0200");
  position.advance(new Reader(unhex("030900010203")));
  position.advance(new Reader(unhex("0309")));
  position.advance(new Reader(unhex("0009")));
  equal(hex(position.encode()), "ac0203000902030309");
  ok(position.of === new Position(unhex("ac02")).of && position.of !== new Position(unhex("ac03")).of, "epoch");
});

test("pieces", "delays stay within a window that doubles up to its limit", () => {
  const backoff = { baseMs: 1000, maxMs: 30_000 };
  const most = (attempt: number, advised: number) => delayMs(attempt, advised, backoff, () => 1);
  equal([0, 1, 2, 5, 90].map((attempt) => most(attempt, 0)), [1000, 2000, 4000, 30_000, 30_000]);
  equal(most(0, 2500), 2500, "as advised");
  equal(most(9, 60_000), 60_000, "advised beyond our own limit");
  equal(delayMs(3, 0, backoff, () => 0), 0);
});

test("pieces", "outcomes are gathered into ranges", async () => {
  const written: unknown[] = [];
  const settler = new Settler((...row) => void written.push(row));
  for (const number of [7, 5, 6, 9]) settler.add(1, number, true);
  settler.add(1, 8, false);
  await Promise.resolve();
  await Promise.resolve();
  equal(written, [[1, 0, [[5, 2], [9, 0]]], [1, 1, [[8, 0]]]]);
});

test("pieces", "an inbox gives what waits, counts it, and ends", async () => {
  let held = 0;
  const inbox = new Inbox<number>((bytes) => void (held += bytes));
  inbox.push(1, 10);
  inbox.push(2, 20);
  equal(held, 30);
  equal(await inbox.next(), { value: 1, done: false });
  equal(held, 20);
  inbox.end(new Error("over"));
  equal((await inbox.next()).value, 2);
  equal(await inbox.next().catch((error: Error) => error.message), "over");
  equal((await inbox.next()).done, true);
  equal(held, 0);
});

test("pieces", "numbers of requests begin anew behind 32 bits, as the server's do", () => {
  equal([1, 0xffff_fffe, 0xffff_ffff].map(after), [2, 0xffff_ffff, 1]);
});
