// @stomp/stompjs over a plain TCP socket or a WebSocket, with waits that only bound failure.
//
// `http2` is a WebSocket in one stream of a connection of Node's own HTTP/2 (RFC 8441), which all peers of
// a test share with whatever else they ask by it.
//
// A Peer is one connection: what arrives is put into queues, so that a test reads the conversation
// in order. TcpSocket is the little that stompjs needs of a WebSocket, over `net`.

import net from 'node:net';
import { Http2Socket } from './http2.js';
import { Client, StompSocketState, Versions } from '@stomp/stompjs';
import WebSocket from 'ws';

const [HOST, PORT] = (process.env.TIDERACE_STOMP ?? '127.0.0.1:7800').split(':');
const WS = process.env.TIDERACE_WS ?? `ws://${HOST}:${PORT}/stomp`;
const [LOGIN, PASSCODE] = (process.env.TIDERACE_LOGIN ?? 'tide:tide-passcode').split(':');
const WAIT_MS = Number(process.env.TIDERACE_WAIT ?? '10') * 1000;

export const TRANSPORTS = ['tcp', 'websocket', 'http2'];
export const VERSIONS = ['1.0', '1.1', '1.2'];

let serial = 0;
export const unique = (prefix) => `${prefix}-js-${process.pid}-${++serial}`;

class TcpSocket {
  constructor(host, port) {
    this.url = `tcp://${host}:${port}`;
    this.readyState = StompSocketState.CONNECTING;
    this.socket = net.connect({ host, port: Number(port), noDelay: true }, () => {
      this.readyState = StompSocketState.OPEN;
      this.onopen?.();
    });
    this.socket.on('data', (data) => this.onmessage?.({ data: new Uint8Array(data).buffer }));
    this.socket.on('error', (error) => this.onerror?.(error));
    this.socket.on('close', (failed) => {
      this.readyState = StompSocketState.CLOSED;
      this.onclose?.({ code: failed ? 1006 : 1000, reason: '', wasClean: !failed });
    });
  }

  send(data) {
    this.socket.write(typeof data === 'string' ? data : Buffer.from(data.buffer ?? data));
  }

  close() {
    this.readyState = StompSocketState.CLOSING;
    this.socket.end();
  }

  terminate() {
    this.socket.destroy();
  }
}

/** A queue that can be awaited. */
class Inbox {
  #items = [];
  #waiting = [];

  put(item) {
    const next = this.#waiting.shift();
    if (next) next(item);
    else this.#items.push(item);
  }

  next(what) {
    if (this.#items.length) return Promise.resolve(this.#items.shift());
    return within(what, new Promise((resolve) => this.#waiting.push(resolve)));
  }
}

export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} in ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class Peer {
  messages = new Inbox();
  errors = new Inbox();
  closes = new Inbox();

  static async open(transport, options = {}) {
    const peer = new Peer();
    const { versions = ['1.2'], login = LOGIN, passcode = PASSCODE, ...others } = options;
    const connected = new Promise((resolve) => {
      peer.client = new Client({
        connectHeaders: { login, passcode, host: 'localhost' },
        heartbeatIncoming: 0,
        heartbeatOutgoing: 0,
        reconnectDelay: 0,
        webSocketFactory: () => socketOf(transport, versions),
        onConnect: resolve,
        onStompError: (frame) => {
          peer.errors.put(frame);
          resolve(undefined);
        },
        onWebSocketClose: (event) => peer.closes.put(event),
        onUnhandledMessage: (message) => peer.messages.put(message),
        ...others,
      });
      peer.client.stompVersions = new Versions(versions);
    });
    peer.client.activate();
    peer.connected = await within('CONNECTED', connected);
    return peer;
  }

  /** Does what needs a receipt and waits for it. */
  async receipt(act) {
    const id = unique('r');
    const got = new Promise((resolve) => this.client.watchForReceipt(id, resolve));
    act({ receipt: id });
    return within(`receipt ${id}`, got);
  }

  async subscribe(destination, headers = {}) {
    const id = headers.id ?? unique('s');
    let subscription;
    await this.receipt((receipt) => {
      subscription = this.client.subscribe(destination, (m) => this.messages.put(m), { id, ...headers, ...receipt });
    });
    return subscription;
  }

  publish(destination, body, headers = {}) {
    return this.receipt((receipt) => {
      const form = typeof body === 'string' ? { body } : { binaryBody: body };
      this.client.publish({ destination, ...form, headers: { ...headers, ...receipt } });
    });
  }

  message() {
    return this.messages.next('message');
  }

  async texts(count) {
    const bodies = [];
    while (bodies.length < count) bodies.push((await this.message()).body);
    return bodies;
  }

  error() {
    return this.errors.next('ERROR');
  }

  closed() {
    return this.closes.next('close');
  }

  /** DISCONNECT with its receipt, then the close. */
  disconnect() {
    return within('end of the connection', this.client.deactivate());
  }

  /** Ends the connection without a word. */
  async cut() {
    this.client.reconnectDelay = 0;
    await within('end of the connection', this.client.deactivate({ force: true }));
  }
}

function socketOf(transport, versions) {
  if (transport === 'tcp') return new TcpSocket(HOST, PORT);
  const names = versions.map((v) => `v${v.replace('.', '')}.stomp`);
  if (transport === 'http2') return new Http2Socket('/stomp', names);
  return new WebSocket(WS, names);
}
