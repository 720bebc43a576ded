// Streams read by the eventsource package, which follows the HTML standard, and by fetch.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { EventSource } from 'eventsource';

const BASE = `http://${process.env.TIDERACE_STOMP ?? '127.0.0.1:7800'}`;
const TOKEN = process.env.TIDERACE_TOKEN ?? 'robot-secret';
const WAIT_MS = Number(process.env.TIDERACE_WAIT ?? '10') * 1000;

let serial = 0;
const unique = (prefix) => `${prefix}-es-${process.pid}-${++serial}`;
const call = (method, path, body, headers = {}) =>
  fetch(BASE + path, { method, body, headers: { Authorization: `Bearer ${TOKEN}`, ...headers } });

function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} in ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** An EventSource whose events can be awaited in order. */
class Peer {
  #items = [];
  #waiting = [];

  constructor(query, options) {
    this.source = new EventSource(`${BASE}/events?access_token=${TOKEN}&${query}`, options);
    for (const name of ['message', 'ready', 'recovered', 'gap', 'binary', 'removed', 'end']) {
      this.source.addEventListener(name, (event) => this.#put(event));
    }
    this.source.onerror = (event) => this.#put({ type: 'error', code: event.code });
  }

  #put(event) {
    const next = this.#waiting.shift();
    if (next) next(event);
    else this.#items.push(event);
  }

  next() {
    if (this.#items.length) return Promise.resolve(this.#items.shift());
    return within('event', new Promise((resolve) => this.#waiting.push(resolve)));
  }

  async data(count) {
    const found = [];
    while (found.length < count) found.push((await this.next()).data);
    return found;
  }
}

const peers = [];
async function open(query, options) {
  const peer = new Peer(query, options);
  peers.push(peer);
  peer.first = await peer.next();
  return peer;
}
afterEach(() => peers.splice(0).forEach((peer) => peer.source.close()));

test('snapshot, then live', async () => {
  const topic = unique('topic');
  await call('PUT', `/topics/${topic}`, 'snapshot');
  const peer = await open(`topic=${topic}`);
  assert.equal(peer.first.type, 'ready');
  for (let n = 0; n < 20; n++) await call('POST', `/topics/${topic}`, `grüße ${n} 🌊`);
  assert.deepEqual(await peer.data(21), ['snapshot', ...Array.from({ length: 20 }, (_, n) => `grüße ${n} 🌊`)]);
});

test('several lines, binary and removal', async () => {
  const topic = unique('topic');
  const peer = await open(`topic=${topic}`);
  await call('PUT', `/topics/${topic}`, 'one\ntwo\n');
  await call('PUT', `/topics/${topic}`, Uint8Array.of(255, 0), { 'Content-Type': 'application/octet-stream' });
  await call('DELETE', `/topics/${topic}`);
  assert.deepEqual(await peer.data(1), ['one\ntwo\n']);
  const binary = await peer.next();
  assert.deepEqual([binary.type, binary.data], ['binary', '/wA=']);
  assert.equal((await peer.next()).type, 'removed');
});

test('patterns come as objects', async () => {
  const topic = unique('topic');
  const peer = await open(`topic=${topic}/*&topic=${topic}/a`);
  await call('POST', `/topics/${topic}/a`, '{"x":[1,\n2]}', { 'Content-Type': 'application/json' });
  const [text] = await peer.data(1);
  const { topic: name, value } = JSON.parse(text);
  assert.deepEqual([name, value], [`${topic}/a`, { x: [1, 2] }]);
});

test('an EventSource that reconnects by itself misses nothing', async () => {
  const topic = unique('topic');
  let cut;
  // A fetch whose answer can be cut from outside, as a network does.
  const cuttable = async (url, init) => {
    const response = await fetch(url, init);
    const reader = response.body.getReader();
    cut = () => reader.cancel();
    const body = new ReadableStream({
      pull: async (controller) => {
        const { value, done } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => reader.cancel(),
    });
    return { body, status: response.status, headers: response.headers, redirected: false, url: response.url };
  };
  const peer = await open(`topic=${topic}`, { fetch: cuttable });
  await call('POST', `/topics/${topic}`, 'seen');
  assert.deepEqual(await peer.data(1), ['seen']);
  cut();
  for (let n = 0; n < 5; n++) await call('POST', `/topics/${topic}`, `missed ${n}`);
  const events = [];
  while (events.filter((event) => event.type === 'message').length < 5) events.push(await peer.next());
  assert.ok(events.some((event) => event.type === 'recovered'));
  const data = events.filter((event) => event.type === 'message').map((event) => event.data);
  assert.deepEqual(data, Array.from({ length: 5 }, (_, n) => `missed ${n}`));
});

test('a refusal is final', async () => {
  const peer = await open('topic=a//b');
  assert.deepEqual([peer.first.type, peer.first.code], ['error', 400]);
  assert.equal(peer.source.readyState, EventSource.CLOSED);
});

test('lines of JSON by fetch', async () => {
  const topic = unique('topic');
  const response = await call('GET', `/events?topic=${topic}`, undefined, { Accept: 'application/x-ndjson' });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const lines = async (count) => {
    while (text.split('\n').length <= count) text += (await within('line', reader.read())).value;
    return text.split('\n').slice(0, count).map((line) => JSON.parse(line));
  };
  await lines(1);
  await call('POST', `/topics/${topic}`, 'hi');
  const [ready, message] = await lines(2);
  assert.equal(ready.event, 'ready');
  assert.equal(message.value, 'hi');
  await reader.cancel();
});
