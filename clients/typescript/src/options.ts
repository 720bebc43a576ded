/** What an application may choose, and what it gets if it does not. */
import { baseOf } from "./addresses.js";
import { Writer } from "./bytes.js";
import type { ConnectorOptions } from "./connector.js";
import type { TransportName, WebSocketClass } from "./transport/transport.js";

export interface ConnectOptions {
  /** A token, or what gets one; asked again before each connection. */
  token?: string | (() => string | Promise<string>);
  /** Name and password, instead of a token. */
  login?: string;
  password?: string;
  /** What the server's operators see of this client. */
  name?: string;
  /** The best first; default WebSocket, then long polling. */
  transports?: readonly TransportName[];
  /** How long to wait before connecting again: a random part of a window that doubles. */
  reconnect?: {
    /** The first window in ms, unless the server advises one; default 1,000. */
    base?: number;
    /** The largest; default 30,000. */
    max?: number;
  };
  /** Milliseconds for connecting, WELCOME included; default 8,000. */
  connectTimeout?: number;
  /** Milliseconds for the answer to a ping; default 8,000. */
  pongTimeout?: number;
  /** Bytes that may be under way to this client; default 4 MiB, 0 for no limit. */
  window?: number;
  /** Bytes that may wait to be sent; default 4 MiB. */
  sendMax?: number;
  /** In place of the platform's, such as that of the package `ws`. */
  WebSocket?: WebSocketClass;
  fetch?: typeof fetch;
}

/** Where the server is: one address, or several of servers that are as good as each other. */
export type Addressed = string | URL | readonly (string | URL)[];

export interface Settings extends ConnectorOptions {
  token?: ConnectOptions["token"];
  login?: string | undefined;
  password?: string | undefined;
  name: string;
  window: number;
  sendMax: number;
}

export function settingsOf(addressed: Addressed = "/", options: ConnectOptions): Settings {
  const page = (globalThis as { location?: { href: string } }).location?.href;
  const bases = [addressed].flat().map((url) => baseOf(url, page));
  if (!bases.length) throw new TypeError("no address to connect to");
  const { reconnect = {} } = options;
  return {
    bases,
    token: options.token,
    login: options.login,
    password: options.password,
    name: options.name ?? "tiderace-js",
    transports: options.transports?.length ? options.transports : ["websocket", "polling"],
    backoff: { baseMs: reconnect.base ?? 1000, maxMs: reconnect.max ?? 30_000 },
    timing: { connectMs: options.connectTimeout ?? 8000, pongMs: options.pongTimeout ?? 8000 },
    window: options.window ?? 4 * 1024 * 1024,
    sendMax: options.sendMax ?? 4 * 1024 * 1024,
    WebSocket: options.WebSocket,
    fetch: options.fetch ?? ((input, init) => fetch(input, init)),
  };
}

/** The field `auth` of HELLO and LOGIN. */
export function credentials(from: {
  token?: string | undefined;
  login?: string | undefined;
  password?: string | undefined;
}): Writer {
  if (from.token !== undefined) return new Writer().u8(2).string(from.token);
  if (from.login === undefined) return new Writer().u8(0);
  return new Writer().u8(1).string(from.login).string(from.password ?? "");
}
