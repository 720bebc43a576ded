// rsocket-js behind a face that reads as a conversation: what arrives waits in queues, and every wait only bounds failure.

import rsocket from 'rsocket-core';
import metadata from 'rsocket-composite-metadata';
import tcp from 'rsocket-tcp-client';
import websocket from 'rsocket-websocket-client';
import WebSocket from 'ws';
import net from 'node:net';

export const [HOST, PORT] = (process.env.TIDERACE_STOMP ?? '127.0.0.1:7800').split(':');
export const BASE = `http://${HOST}:${PORT}`;
export const TOKEN = process.env.TIDERACE_TOKEN ?? 'robot-secret';
export const [LOGIN, PASSWORD] = (process.env.TIDERACE_LOGIN ?? 'tide:tide-passcode').split(':');
const WAIT_MS = Number(process.env.TIDERACE_WAIT ?? '10') * 1000;

export const COMPOSITE = 'message/x.rsocket.composite-metadata.v0';
export const PROPERTIES = 'message/x.tiderace.properties.v0';
export const OPTIONS = 'message/x.tiderace.options.v0';
export const MESSAGE = 'message/x.tiderace.message.v0';
export const MANY = 2 ** 31 - 1;
export const { ErrorCodes } = rsocket;
export const { WellKnownMimeType } = metadata;

let serial = 0;
export const unique = (prefix) => `${prefix}-rsjs-${process.pid}-${++serial}`;

export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} in ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Another protocol: plain HTTP. */
export async function http(method, path, body, headers = {}) {
  const response = await fetch(`${BASE}${path}`, {
    method,
    body,
    headers: { Authorization: `Bearer ${TOKEN}`, ...headers },
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response;
}

export class Inbox {
  #items = [];
  #waiting = [];

  put(item) {
    const next = this.#waiting.shift();
    if (next) next(item);
    else this.#items.push(item);
  }

  next(what = 'item') {
    if (this.#items.length) return Promise.resolve(this.#items.shift());
    return within(what, new Promise((resolve) => this.#waiting.push(resolve)));
  }

  get size() {
    return this.#items.length;
  }
}

// Metadata.

export const simple = (user = LOGIN, password = PASSWORD) => metadata.encodeSimpleAuthMetadata(user, password);
export const bearer = (token = TOKEN) => metadata.encodeBearerAuthMetadata(token);

const composite = (entries) => metadata.encodeCompositeMetadata(entries);
const AUTH = WellKnownMimeType.MESSAGE_RSOCKET_AUTHENTICATION;
const ROUTING = WellKnownMimeType.MESSAGE_RSOCKET_ROUTING;

/** A request: its route, its data, and more entries of metadata. */
export function request(route, data = '', ...entries) {
  const text = typeof data === 'string' ? Buffer.from(data) : data;
  return { data: text, metadata: composite([[ROUTING, metadata.encodeRoute(route)], ...entries]) };
}

/** The entry that says what a request's data is: one byte, or a name behind its length. */
export function dataType(mime) {
  const known = WellKnownMimeType.fromString(mime);
  const form = known.identifier >= 0 ? Buffer.from([0x80 | known.identifier]) : Buffer.concat([Buffer.from([mime.length - 1]), Buffer.from(mime)]);
  return [WellKnownMimeType.MESSAGE_RSOCKET_MIMETYPE, form];
}

const lines = (values) => Buffer.from(Object.entries(values).map(([name, value]) => `${name}:${value}\n`).join(''));
export const properties = (values) => [PROPERTIES, lines(values)];
export const options = (values) => [OPTIONS, lines(values)];

/** What composite metadata says, by MIME type. */
export function entries(buffer) {
  const found = {};
  if (buffer) for (const entry of metadata.decodeCompositeMetadata(buffer)) found[entry.mimeType ?? entry.type] = entry.content;
  return found;
}

/** Properties that came with an item, or what else is said of it in lines. */
export function propertiesOf(payload, mime = PROPERTIES) {
  const text = entries(payload.metadata)[mime]?.toString() ?? '';
  return Object.fromEntries(text.split('\n').filter(Boolean).map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}

/** One stream, seen from the requester: items, then an end. */
export class Stream {
  items = new Inbox();
  ended = new Promise((resolve) => {
    this.end = resolve;
  });
  wanted = new Inbox();
  cancelled = new Promise((resolve) => {
    this.cancel = resolve;
  });

  onNext(payload, complete) {
    this.items.put(payload);
    if (complete) this.end('complete');
  }
  onError(error) {
    this.end(error);
    this.items.put(error);
  }
  onComplete() {
    this.end('complete');
  }
  onExtension() {}
  request(n) {
    this.wanted.put(n);
  }

  async next() {
    const item = await this.items.next();
    if (item instanceof Error) throw item;
    return item;
  }
  async text() {
    return String((await this.next()).data);
  }
  async texts(count) {
    const found = [];
    while (found.length < count) found.push(await this.text());
    return found;
  }
}

/** What carries a connection; the test can cut it as a network does. */
export class Line {
  #streams = new Set();

  keep(stream) {
    this.#streams.add(stream);
    stream.once('close', () => this.#streams.delete(stream));
    return stream;
  }

  cut() {
    for (const stream of this.#streams) stream.destroy();
  }
}

/** For each kind, the transport of rsocket-js over a line. */
export const TRANSPORTS = {
  tcp: (line) =>
    new tcp.TcpClientTransport({
      connectionOptions: { host: HOST, port: Number(PORT), noDelay: true },
      socketCreator: (to) => line.keep(net.connect(to)),
    }),
  websocket: (line) =>
    new websocket.WebsocketClientTransport({
      url: `ws://${HOST}:${PORT}/rsocket`,
      wsCreator: (url) =>
        new WebSocket(url, { perMessageDeflate: false, createConnection: (to) => line.keep(net.connect(to)) }),
    }),
};

export class Peer {
  line = new Line();
  closing = false;

  /** `kind` is one of TRANSPORTS. A good SETUP has no answer, so this returns before the server has looked at it. */
  static async open(kind, options = {}) {
    const peer = new Peer();
    const { auth = bearer(), mtu, resume, lease, keepAlive = 1000, lifetime = 20_000, responder, mime = 'text/plain', more = [] } = options;
    const connector = new rsocket.RSocketConnector({
      setup: {
        payload: { data: undefined, metadata: composite([...(auth ? [[AUTH, auth]] : []), ...more]) },
        dataMimeType: mime,
        metadataMimeType: COMPOSITE,
        keepAlive,
        lifetime,
      },
      transport: TRANSPORTS[kind](peer.line),
      ...(mtu && { fragmentation: { maxOutboundFragmentSize: mtu } }),
      ...(lease && { lease: { maxPendingRequests: lease } }),
      ...(resume && {
        resume: {
          tokenGenerator: () => resume,
          // A resuming client comes back even after its own close(), unless this says no.
          reconnectFunction: (attempt) =>
            peer.closing || attempt > 20 ? Promise.reject(new Error('over')) : new Promise((resolve) => setTimeout(resolve, 50 * attempt)),
        },
      }),
      ...(responder && { responder }),
    });
    peer.socket = await within('connection', connector.connect());
    peer.closed = new Promise((resolve) => peer.socket.onClose(resolve));
    return peer;
  }

  /** Request and response: the payload, or null if there is none; throws what the server answers. */
  async respond(payload) {
    const stream = new Stream();
    this.socket.requestResponse(payload, stream);
    const end = await within('response', stream.ended);
    if (end instanceof Error) throw end;
    return stream.items.size ? stream.items.next() : null;
  }

  /** The error of a request that must fail. */
  async refused(payload) {
    try {
      await this.respond(payload);
    } catch (error) {
      return error;
    }
    throw new Error('it was not refused');
  }

  fire(payload) {
    const gone = new Stream();
    this.socket.fireAndForget(payload, gone);
    return within('request sent', gone.ended);
  }

  stream(payload, n = MANY) {
    const stream = new Stream();
    stream.control = this.socket.requestStream(payload, n, stream);
    return stream;
  }

  channel(payload, { n = MANY, complete = false } = {}) {
    const stream = new Stream();
    stream.control = this.socket.requestChannel(payload, n, complete, stream);
    return stream;
  }

  async close() {
    this.closing = true;
    this.socket.close();
    this.line.cut();
  }
}
