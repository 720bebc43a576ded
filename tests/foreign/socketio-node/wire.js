// Engine.IO and Socket.IO packet by packet, by fetch and ws, and the companion that makes an echo
// observable: the server passes on and answers nothing by itself, so a socket.io-client does.
//
// Waits only bound failure. Every session logs in with TOKEN unless told otherwise.

import { WebSocket } from 'ws';
import { BASE, Peer, TOKEN, within } from './peer.js';

export const AUTH = JSON.stringify({ token: TOKEN });
export const BEARER = { Authorization: `Bearer ${TOKEN}` };
const SEPARATOR = '\x1e';

/** Serves the service `service` and answers `message` in the namespace `/echo`, both with what came. */
export async function companion(service) {
  const server = await Peer.open(4, 'websocket');
  server.socket.on('request', (path, value, meta, answer) => answer(value));
  await server.done('serve', service);
  const echo = await Peer.open(4, 'websocket', { namespace: '/echo' });
  echo.socket.removeAllListeners('message');
  echo.socket.on('message', (...values) => echo.socket.emit('message-back', ...values));
  return { close: () => [server, echo].forEach((peer) => peer.close()) };
}

/** An answer to a request, read whole. */
export async function ask(query, { path = '/socket.io/', ...options } = {}) {
  const response = await within('answer', fetch(`${BASE}${path}?${query}`, options));
  const bytes = Buffer.from(await response.arrayBuffer());
  return { status: response.status, type: response.headers.get('content-type') ?? '', bytes, text: bytes.toString() };
}

/** Packets as a text payload; lengths of revision 3 count UTF-16 units, as strings do here. */
export const payload = (revision, ...packets) =>
  revision === 4 ? packets.join(SEPARATOR) : packets.map((packet) => `${packet.length}:${packet}`).join('');

function packetsOf(revision, text) {
  if (revision === 4) return text.split(SEPARATOR);
  const packets = [];
  while (text) {
    const colon = text.indexOf(':');
    const end = colon + 1 + Number(text.slice(0, colon));
    packets.push(text.slice(colon + 1, end));
    text = text.slice(end);
  }
  return packets;
}

/** The binary payload of revision 3: kind, digits, 255, data. */
export function binaryPayload(...packets) {
  return Buffer.concat(packets.flatMap((packet) => {
    const data = Buffer.from(packet);
    const digits = [...String(data.length)].map(Number);
    return [Buffer.from([typeof packet === 'string' ? 0 : 1, ...digits, 255]), data];
  }));
}

function binaryPackets(bytes) {
  const packets = [];
  while (bytes.length) {
    const end = bytes.indexOf(255);
    const stop = end + 1 + Number([...bytes.subarray(1, end)].join(''));
    const data = bytes.subarray(end + 1, stop);
    packets.push(bytes[0] ? Buffer.from(data) : data.toString());
    bytes = bytes.subarray(stop);
  }
  return packets;
}

/** What both carriers share: packets in order, heartbeats of revision 4 answered in passing. */
class Wire {
  packets = [];
  ended = false;

  constructor(revision, query) {
    this.revision = revision;
    this.query = `EIO=${revision}${query ? `&${query}` : ''}`;
  }

  /** The next packet that is neither heartbeat nor noop; `null` once the session is over. */
  async next() {
    while (true) {
      while (!this.packets.length) {
        if (this.ended) return null;
        await this.more();
      }
      const packet = this.packets.shift();
      if (packet === '2' && this.revision === 4) await this.send('3');
      else if (packet === '1') this.ended = true;
      else if (packet !== '6') return packet;
    }
  }

  async take(count) {
    const found = [];
    while (found.length < count) found.push(await this.next());
    return found;
  }

  /** Until the session is over, whatever comes before. */
  async closed() {
    while ((await this.next()) !== null);
  }

  /** Into a namespace, with the credentials of the suites; what the server answered. */
  async join(namespace, auth = AUTH) {
    await this.send(`40${namespace === '/' ? '' : `${namespace},`}${this.revision === 4 ? auth : ''}`);
    return this.next();
  }
}

export class Polling extends Wire {
  static async open(revision, { query = '', path = '/socket.io/', headers = {} } = {}) {
    const wire = new Polling(revision, query);
    wire.path = path;
    wire.packets = wire.read(await wire.request({ headers }));
    wire.handshake = JSON.parse(wire.packets.shift().slice(1));
    wire.query += `&sid=${wire.handshake.sid}`;
    return wire;
  }

  request(options) {
    return ask(`${this.query}&transport=polling`, { path: this.path, ...options });
  }

  post(body, type = 'text/plain;charset=UTF-8') {
    return this.request({ method: 'POST', body, headers: { 'Content-Type': type } });
  }

  /** All in one payload; Buffers in the base64 form of the revision. */
  async send(...packets) {
    const mark = this.revision === 4 ? 'b' : 'b4';
    const texts = packets.map((packet) => (Buffer.isBuffer(packet) ? mark + packet.toString('base64') : packet));
    const answer = await this.post(payload(this.revision, ...texts));
    if (answer.status !== 200) this.ended = true;
    return answer;
  }

  read({ type, text, bytes }) {
    if (type.startsWith('application/octet-stream')) return binaryPackets(bytes);
    return packetsOf(this.revision, text);
  }

  async more() {
    const answer = await this.request();
    if (answer.status !== 200) this.ended = true;
    else this.packets.push(...this.read(answer).map((packet) => this.plain(packet)));
  }

  /** Bytes as Buffer, whatever form they had. */
  plain(packet) {
    if (Buffer.isBuffer(packet)) return packet[0] === 4 ? packet.subarray(1) : packet.toString();
    if (!packet.startsWith('b')) return packet;
    return Buffer.from(packet.slice(this.revision === 4 ? 1 : 2), 'base64');
  }

}

export class Socket extends Wire {
  #waiting = null;

  /** The opening handshake alone: its status. */
  static refusal(query, path = '/socket.io/') {
    const socket = new WebSocket(`${BASE.replace('http', 'ws')}${path}?${query}`);
    return within('answer to a handshake', new Promise((resolve) => {
      socket.on('open', () => resolve(101) || socket.close());
      socket.on('unexpected-response', (request, response) => resolve(response.statusCode) || request.destroy());
      socket.on('error', () => {});
    }));
  }

  constructor(revision, query, path = '/socket.io/', headers = {}) {
    super(revision, query);
    const url = `${BASE.replace('http', 'ws')}${path}?${this.query}&transport=websocket`;
    this.socket = new WebSocket(url, { headers });
    const tell = () => this.#waiting?.();
    this.socket.on('message', (data, isBinary) => {
      const bytes = isBinary && revision === 3 ? data.subarray(1) : data;
      this.packets.push(isBinary ? bytes : data.toString());
      tell();
    });
    this.socket.on('close', () => {
      this.ended = true;
      tell();
    });
    this.socket.on('error', () => {});
    this.opened = within('open', new Promise((resolve, reject) => {
      this.socket.on('open', resolve);
      this.socket.on('close', () => reject(new Error('closed before it opened')));
    }));
    this.opened.catch(() => {});
  }

  static async open(revision, { query = '', path, headers } = {}) {
    const wire = new Socket(revision, query, path, headers);
    wire.handshake = JSON.parse((await wire.next()).slice(1));
    return wire;
  }

  async send(...packets) {
    await this.opened;
    for (const packet of packets) {
      const old = Buffer.isBuffer(packet) && this.revision === 3;
      this.socket.send(old ? Buffer.concat([Buffer.of(4), packet]) : packet);
    }
  }

  async more() {
    await within('packet', new Promise((resolve) => (this.#waiting = resolve)));
    this.#waiting = null;
  }

  /** Also the transport itself has to end, not only the session. */
  async closed() {
    await super.closed();
    if (this.socket.readyState !== WebSocket.CLOSED) {
      await within('close', new Promise((resolve) => this.socket.on('close', resolve)));
    }
  }

  close() {
    this.socket.close();
  }
}

/** A polling session taken over by a WebSocket. */
export async function upgraded(revision, options) {
  const polling = await Polling.open(revision, options);
  return upgrade(polling);
}

export async function upgrade(polling) {
  const query = polling.query.replace(/^EIO=\d&?/, '');
  const socket = new Socket(polling.revision, query, polling.path);
  await socket.send('2probe');
  const probed = await socket.next();
  if (probed !== '3probe') throw new Error(`the probe was answered with ${probed}`);
  await socket.send('5');
  socket.handshake = polling.handshake;
  socket.packets.unshift(...polling.packets);
  return socket;
}

export const CARRIERS = { polling: Polling.open, websocket: Socket.open, upgrade: upgraded };
