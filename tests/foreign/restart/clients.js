// One subscriber by each protocol: what it got, as [version, value], and what it was told of jumps.

import metadata from 'rsocket-composite-metadata';
import rsocket from 'rsocket-core';
import rsocketWebSocket from 'rsocket-websocket-client';
import { io } from 'socket.io-client';
import WebSocket from 'ws';
import { Inbox, within } from './server.js';

export const { connect } = await import(process.env.TIDERACE_SDK);

export function sdk(server, options = {}) {
  return connect(server.url, { WebSocket, reconnect: { base: 1, max: 1 }, ...options });
}

/** A subscription of the SDK, with all that it tells. */
export function watch(client, path, options) {
  const inbox = new Inbox();
  const gaps = [];
  const subscription = client.topic(path).subscribe(
    (value, { topic, version, removed }) => inbox.put({ topic, version, value, removed }),
    options,
  );
  subscription.on('gap', (gap) => gaps.push(gap));
  return { inbox, gaps, subscription };
}

export const seen = ({ version, value }) => [version, value.n];

/** Socket.IO: subscribes anew on each connection, from where it was; jumps it was not told of. */
export function socketio(server, topic) {
  const inbox = new Inbox();
  const socket = io(server.url, { transports: ['websocket'], reconnection: false });
  const known = { last: 0 };
  socket.on('connect', () => {
    const replay = known.last ? { version: known.last + 1 } : { last: 10 };
    socket.emit('subscribe', topic, { replay }, () => {});
  });
  socket.on('message', (path, value, { version, follows }) => {
    inbox.put({ version, value, jumps: known.last && (follows ?? version - 1) !== known.last });
    known.last = version;
  });
  return { inbox, socket };
}

/** Server-Sent Events, as a browser comes back: with the id of the last event. */
export class Events {
  inbox = new Inbox();
  notices = new Inbox();
  id;

  constructor(server, topic) {
    this.path = () => `${server.url}/events?topic=${topic}&envelope=true&replay=last:10`;
  }

  async open() {
    const headers = this.id ? { 'Last-Event-ID': this.id } : {};
    this.stop = new AbortController();
    const response = await within('stream', fetch(this.path(), { headers, signal: this.stop.signal }));
    this.reading = this.#read(response.body).catch(() => {});
  }

  async #read(body) {
    let text = '';
    for await (const piece of body.pipeThrough(new TextDecoderStream())) {
      const events = (text + piece).split('\n\n');
      text = events.pop();
      for (const event of events) this.#take(event.split('\n'));
    }
  }

  #take(lines) {
    const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    this.id = field('id') ?? this.id;
    if (field('event')) this.notices.put(field('event'));
    else if (field('data')) this.inbox.put(JSON.parse(field('data')));
  }
}

/** RSocket: a stream of a topic with details, from a version on. */
export async function stream(server, topic, replay) {
  const composite = (entries) => metadata.encodeCompositeMetadata(entries);
  const connector = new rsocket.RSocketConnector({
    setup: {
      dataMimeType: 'application/json',
      metadataMimeType: 'message/x.rsocket.composite-metadata.v0',
      keepAlive: 1000,
      lifetime: 20_000,
    },
    transport: new rsocketWebSocket.WebsocketClientTransport({
      url: `${server.url.replace('http', 'ws')}/rsocket`,
      wsCreator: (url) => new WebSocket(url),
    }),
  });
  const inbox = new Inbox();
  const connection = await within('connection', connector.connect());
  const routing = metadata.WellKnownMimeType.MESSAGE_RSOCKET_ROUTING;
  const options = Buffer.from(`details:true\nreplay:${replay}\n`);
  const payload = {
    data: Buffer.alloc(0),
    metadata: composite([[routing, metadata.encodeRoute(topic)], ['message/x.tiderace.options.v0', options]]),
  };
  connection.requestStream(payload, 1000, {
    onNext({ data, metadata: block }) {
      const entries = [...metadata.decodeCompositeMetadata(block)];
      const details = entries.find((entry) => (entry.mimeType ?? entry.type) === 'message/x.tiderace.message.v0');
      const line = (name) => new RegExp(`^${name}:(.*)$`, 'm').exec(details.content.toString())?.[1];
      inbox.put({ version: Number(line('version')), follows: line('follows'), value: JSON.parse(data.toString()) });
    },
    onError() {},
    onComplete() {},
    onExtension() {},
  });
  return { inbox, close: () => connection.close() };
}
