// HTTP/2 by Node: one connection without TLS, by prior knowledge, whose streams each carry an RSocket connection.
//
// A stream is either begun by POST, and is then a stream of bytes with 24-bit lengths as TCP is, or by extended CONNECT
// (RFC 8441), and is then a WebSocket. Both are put below rsocket-js as further transports.

import http2 from 'node:http2';
import tcp from 'rsocket-tcp-client';
import websocket from 'rsocket-websocket-client';
import WebSocket from 'ws';
import { BASE, TRANSPORTS, within } from './peer.js';

let shared;

/** The connection, made when first asked for. It does not keep the process alive. */
export function connection() {
  if (!shared || shared.closed || shared.destroyed) {
    shared = http2.connect(BASE, { settings: { initialWindowSize: 1 << 20 } });
    shared.on('error', () => {});
    shared.ready = new Promise((resolve) => shared.once('remoteSettings', resolve));
    shared.unref();
  }
  return shared;
}

/** A stream begun by POST; its `response` says whether it is taken. */
export const post = (path = '/rsocket', headers = {}) =>
  connection().request({ ':method': 'POST', ':path': path, ...headers }, { endStream: false });

/** A stream begun by extended CONNECT. */
export const connect = (path = '/rsocket', headers = {}) =>
  connection().request({
    ':method': 'CONNECT',
    ':protocol': 'websocket',
    ':path': path,
    'sec-websocket-version': '13',
    ...headers,
  });

export const status = (stream) =>
  within('response', new Promise((resolve, reject) => {
    stream.once('response', (headers) => resolve(headers[':status']));
    stream.once('error', reject);
  }));

/** A WebSocket of the package `ws` over a stream of HTTP/2. */
export function websocketOver(stream) {
  const found = new WebSocket(null, undefined, {});
  // Made for the other side of such streams; a client masks what it sends.
  found._isServer = false;
  stream.once('response', (headers) => {
    if (headers[':status'] !== 200) found.emit('error', new Error(`status ${headers[':status']}`));
    else found.setSocket(stream, Buffer.alloc(0), { allowSynchronousEvents: true, maxPayload: 0, skipUTF8Validation: false });
  });
  stream.once('error', (error) => found.emit('error', error));
  return found;
}

TRANSPORTS['POST over HTTP/2'] = (line) =>
  new tcp.TcpClientTransport({
    connectionOptions: {},
    socketCreator: () => {
      const stream = line.keep(post());
      stream.once('response', (headers) => {
        if (headers[':status'] === 200) stream.emit('connect');
        else stream.destroy(new Error(`status ${headers[':status']}`));
      });
      return stream;
    },
  });

TRANSPORTS['WebSocket over HTTP/2'] = (line) => ({
  async connect(multiplexer) {
    await within('settings', connection().ready);
    const wsCreator = () => websocketOver(line.keep(connect()));
    return new websocket.WebsocketClientTransport({ url: '', wsCreator }).connect(multiplexer);
  },
});
