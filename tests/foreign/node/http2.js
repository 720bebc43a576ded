// A WebSocket of `ws` inside a stream of Node's HTTP/2, and the connection that such streams share.

import http2 from 'node:http2';
import WebSocket from 'ws';

const ORIGIN = `http://${process.env.TIDERACE_STOMP ?? '127.0.0.1:7800'}`;

let shared;

/** The connection that all share, when the server has said what it can do. */
export function session() {
  if (!shared || shared.closed || shared.destroyed) {
    shared = http2.connect(ORIGIN);
    shared.on('error', () => {});
    shared.ready = new Promise((resolve, reject) => {
      shared.once('remoteSettings', resolve);
      shared.once('close', () => reject(new Error('the connection ended')));
    });
    shared.ready.catch(() => {});
  }
  return shared;
}

export function hangUp() {
  shared?.destroy();
  shared = undefined;
}

/** Opens a stream by extended CONNECT (RFC 8441); the fields of the answer and the stream. */
export async function connect(path, fields = {}) {
  const connection = session();
  await connection.ready;
  const stream = connection.request({
    ':method': 'CONNECT',
    ':protocol': 'websocket',
    ':path': path,
    'sec-websocket-version': '13',
    ...fields,
  });
  const head = await new Promise((resolve, reject) => {
    stream.once('response', resolve);
    stream.once('error', reject);
    stream.once('close', () => reject(new Error('the stream ended')));
  });
  return { head, stream };
}

/** A request with its whole answer. */
export async function ask(method, path, { body, ...fields } = {}) {
  const stream = session().request({ ':method': method, ':path': path, ...fields });
  stream.end(body);
  const head = await new Promise((resolve, reject) => {
    stream.once('response', resolve);
    stream.once('error', reject);
  });
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return { status: head[':status'], head, text: Buffer.concat(pieces).toString() };
}

/** What stompjs needs of a WebSocket; frames are made and read by `ws`. */
export class Http2Socket {
  readyState = WebSocket.CONNECTING;
  binaryType = 'arraybuffer';

  constructor(path, protocols) {
    this.url = `${ORIGIN}${path}`;
    const fields = protocols.length ? { 'sec-websocket-protocol': protocols.join(', ') } : {};
    connect(path, fields).then(
      ({ head, stream }) => this.#open(head, stream),
      () => this.#closed(1006, ''),
    );
  }

  #open(head, stream) {
    if (head[':status'] !== 200) return this.#closed(1006, `status ${head[':status']}`);
    this.stream = stream;
    this.protocol = head['sec-websocket-protocol'] ?? '';
    this.socket = new WebSocket(null, undefined, { autoPong: true, maxPendingAutoPongs: 16 });
    // Made without an address it takes itself for a server's.
    this.socket._isServer = false;
    this.socket.binaryType = this.binaryType;
    stream.on('error', () => {});
    this.socket.setSocket(stream, Buffer.alloc(0), { allowSynchronousEvents: true, maxPayload: 2 ** 26, skipUTF8Validation: false });
    this.socket.on('message', (data, binary) => this.onmessage?.({ data: binary ? data : data.toString() }));
    this.socket.on('error', (error) => this.onerror?.(error));
    this.socket.on('close', (code, reason) => this.#closed(code, reason.toString()));
    this.readyState = WebSocket.OPEN;
    this.onopen?.();
  }

  #closed(code, reason) {
    if (this.readyState === WebSocket.CLOSED) return;
    this.readyState = WebSocket.CLOSED;
    this.onclose?.({ code, reason, wasClean: code !== 1006 });
  }

  send(data) {
    this.socket.send(data);
  }

  close(code, reason) {
    this.readyState = WebSocket.CLOSING;
    this.socket?.close(code, reason);
  }

  terminate() {
    this.stream?.close(http2.constants.NGHTTP2_CANCEL);
    this.socket?.terminate();
  }
}
