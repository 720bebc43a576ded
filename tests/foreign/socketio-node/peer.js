// socket.io-client 4, 2 and 1 behind one face, with waits that only bound failure.
//
// A Peer is one connection: what arrives is put into queues by event, so that a test reads the
// conversation in order.

import { io as io4 } from 'socket.io-client';
import io2 from 'socket.io-client-2';
import io1 from 'socket.io-client-1';

export const BASE = `http://${process.env.TIDERACE_STOMP ?? '127.0.0.1:7800'}`;
export const TOKEN = process.env.TIDERACE_TOKEN ?? 'robot-secret';
export const LIMITED = { user: 'limited', password: 'limited-passcode' };
const WAIT_MS = Number(process.env.TIDERACE_WAIT ?? '10') * 1000;

export const CLIENTS = { 4: io4, 2: io2, 1: io1 };
export const MODES = {
  polling: { transports: ['polling'], upgrade: false },
  websocket: { transports: ['websocket'] },
  upgrade: { transports: ['polling', 'websocket'] },
};

let serial = 0;
export const unique = (prefix) => `${prefix}-sio-${process.pid}-${++serial}`;

export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} in ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Published by plain HTTP, for what should come from elsewhere. */
export async function publish(topic, value, retain = false) {
  const response = await fetch(`${BASE}/topics/${topic}?retain=${retain}`, {
    method: 'POST',
    body: JSON.stringify(value),
    headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
  });
  if (!response.ok) throw new Error(await response.text());
}

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

const EVENTS = [
  'connect', 'connect_error', 'error', 'disconnect', 'message', 'job', 'request', 'said', 'ended', 'problem',
];

export class Peer {
  #inboxes = new Map();

  /** Connects without waiting for anything. `more` lists further events to listen to. */
  constructor(version, mode, { auth = { token: TOKEN }, base = BASE, namespace = '/', more = [], ...options } = {}) {
    this.version = version;
    const login = version === 4 ? { auth } : { query: auth };
    const whole = { forceNew: true, reconnection: false, ...MODES[mode], ...login, ...options };
    this.socket = CLIENTS[version](`${base}${namespace}`, whole);
    this.manager = this.socket.io;
    for (const event of [...EVENTS, ...more]) this.listen(this.socket, event);
    this.upgraded = new Promise((resolve) => {
      const watch = () => this.manager.engine?.once('upgrade', resolve);
      // Version 1 has its engine at once, the others when they open.
      if (this.manager.engine) watch();
      else this.manager.once('open', watch);
    });
  }

  static async open(version, mode, options) {
    const peer = new Peer(version, mode, options);
    await peer.next('connect');
    if (mode === 'upgrade' && options?.upgraded !== false) await within('upgrade', peer.upgraded);
    return peer;
  }

  listen(emitter, event, name = event) {
    const inbox = new Inbox();
    this.#inboxes.set(name, inbox);
    emitter.on(event, (...args) => inbox.put(args));
  }

  next(event) {
    return this.#inboxes.get(event).next(event);
  }

  /** Emits and waits for the ack. */
  ask(event, ...args) {
    return within(`ack of ${event}`, new Promise((resolve) => this.socket.emit(event, ...args, resolve)));
  }

  /** The same, and it must be done. */
  async done(event, ...args) {
    const answer = await this.ask(event, ...args);
    if (!answer.ok) throw new Error(`${event}: ${JSON.stringify(answer)}`);
    return answer;
  }

  async values(count) {
    const found = [];
    while (found.length < count) found.push((await this.next('message'))[1]);
    return found;
  }

  transport() {
    return this.manager.engine.transport.name;
  }

  /** Ends the connection as a network does, without the client's consent. */
  cut() {
    const { engine } = this.manager;
    const { ws } = engine.transport;
    if (ws) (ws.terminate ?? ws.close).call(ws);
    else (engine.onClose ?? engine._onClose).call(engine, 'transport error');
  }

  close() {
    this.socket.disconnect();
    this.manager.close?.();
  }
}
