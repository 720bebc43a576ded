/**
 * Values and the bytes of bodies: JSON unless said otherwise, bytes as bytes, and the properties
 * beside them.
 */
import { text, utf8, Writer } from "./bytes.js";

/** Named values that go with a message. */
export type Properties = Record<string, string>;

/** How a value is to be sent. */
export interface ValueOptions {
  /** The content type; by default JSON, and `application/octet-stream` for bytes. */
  type?: string;
  /** Named values that go with it. */
  properties?: Properties;
}

const JSON_TYPE = "application/json";
const TEXT_TYPE = "text/plain";
const BYTES_TYPE = "application/octet-stream";
/** By the two bits that stand for them. */
const TYPES = ["", JSON_TYPE, TEXT_TYPE, BYTES_TYPE];
const strict = new TextDecoder("utf-8", { fatal: true });

/** A value ready to be written. */
export interface Encoded {
  /** Content bits, and `0x04` if there are properties. */
  flags: number;
  /** Properties, if there are, and body. */
  write(into: Writer): void;
  size: number;
}

export function encodeValue(value: unknown, options: ValueOptions = {}): Encoded {
  const given = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
  const isBytes = given instanceof Uint8Array;
  const type = options.type ?? (isBytes ? BYTES_TYPE : given === undefined ? "" : JSON_TYPE);
  let body: Uint8Array;
  if (isBytes) body = given;
  else if (given === undefined) body = new Uint8Array();
  else if (type === JSON_TYPE || type.endsWith("+json")) body = utf8(JSON.stringify(given) ?? "null");
  else body = utf8(String(given));
  const known = TYPES.indexOf(type);
  const rows = Object.entries(options.properties ?? {});
  if (known < 0) rows.push(["content-type", type]);
  const block = utf8(rows.map(([name, value]) => `${escape(name)}:${escape(value)}\n`).join(""));
  return {
    flags: Math.max(known, 0) | (block.length ? 4 : 0),
    size: block.length + body.length,
    write(into) {
      if (block.length) into.bytes(block);
      into.raw(body);
    },
  };
}

export function decodeValue(content: number, block: Uint8Array | undefined, body: Uint8Array): unknown {
  const type = TYPES[content] || (block && decodeProperties(block)["content-type"]) || "";
  if (type === BYTES_TYPE) return body.slice();
  const isJson = type === JSON_TYPE || type.endsWith("+json");
  if (!type && !body.length) return undefined;
  try {
    const read = type ? text(body) : strict.decode(body);
    return isJson ? JSON.parse(read) : type && !type.startsWith("text/") ? body.slice() : read;
  } catch {
    // JSON that is none is given as text, text that is none as bytes.
    return isJson ? text(body) : body.slice();
  }
}

export function decodeProperties(block: Uint8Array): Properties {
  const properties: Properties = {};
  for (const line of text(block).split("\n")) {
    const colon = line.indexOf(":");
    if (colon < 0) continue;
    const name = unescape(line.slice(0, colon));
    if (!Object.hasOwn(properties, name)) properties[name] = unescape(line.slice(colon + 1));
  }
  return properties;
}

const ESCAPES: Record<string, string> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c" };
const MEANINGS: Record<string, string> = { n: "\n", r: "\r", c: ":" };

const escape = (value: string): string => value.replace(/[\\\n\r:]/g, (one) => ESCAPES[one]!);
const unescape = (value: string): string =>
  value.replace(/\\(.)/g, (_, one: string) => MEANINGS[one] ?? one);
