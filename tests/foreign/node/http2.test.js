// Node's HTTP/2 and the server: requests, streams of events, polls, refusals, windows, many at once.

import assert from 'node:assert/strict';
import http2 from 'node:http2';
import { after, describe, test } from 'node:test';
import { Peer, unique, within } from './peer.js';
import { ask, connect, hangUp, session } from './http2.js';

const TOKEN = process.env.TIDERACE_TOKEN ?? 'robot-secret';
const BEARER = { authorization: `Bearer ${TOKEN}` };

/** The text of a stream as it comes. */
async function* texts(stream) {
  for await (const piece of stream) yield piece.toString();
}

async function until(pieces, done) {
  let text = '';
  for await (const piece of pieces) {
    text += piece;
    if (done(text)) return text;
  }
  throw new Error(`the stream ended after ${text}`);
}

describe('http2', () => {
  after(hangUp);

  test('values are put, read and removed', async () => {
    const path = `/topics/${unique('h2')}`;
    const put = await ask('PUT', path, { ...BEARER, body: 'hello' });
    assert.ok([200, 201, 204].includes(put.status), String(put.status));
    const read = await ask('GET', path, BEARER);
    assert.deepEqual([read.status, read.text], [200, 'hello']);
    assert.equal(read.head.connection, undefined);
    const head = await ask('HEAD', path, BEARER);
    assert.equal(head.text, '');
    const nobody = await ask('GET', path, {});
    assert.equal(nobody.status, 401);
  });

  test('virtual hosts are told by :authority', async () => {
    const path = `/topics/${unique('h2')}`;
    const hosts = ['shop.example', 'bank.example:7800'];
    for (const host of hosts) {
      assert.ok((await ask('PUT', path, { ...BEARER, ':authority': host, body: host })).status < 300);
    }
    for (const host of hosts) {
      assert.equal((await ask('GET', path, { ...BEARER, ':authority': host })).text, host);
    }
    assert.equal((await ask('GET', path, BEARER)).status, 404);
    assert.equal((await ask('GET', path.replace('/topics/', '/topics/@shop/'), BEARER)).text, hosts[0]);
    const till = { authorization: 'Bearer till-of-the-shop', ':authority': 'bank.example' };
    const refused = await ask('GET', path, till);
    assert.deepEqual([refused.status, JSON.parse(refused.text).code], [403, 'wrong-host']);
  });

  test('pages and errors are those of HTTP/1.1', async () => {
    assert.equal((await ask('GET', '/livez')).status, 200);
    assert.equal((await ask('GET', '/no/such/page')).status, 404);
    const plain = session().request({ ':method': 'CONNECT', ':authority': 'example.org:443' });
    const head = await new Promise((resolve) => plain.once('response', resolve));
    assert.equal(head[':status'], 501);
    plain.close();
  });

  test('a body may be long, and its length unknown', async () => {
    const path = `/topics/${unique('h2')}`;
    const body = 'x'.repeat(1_500_000);
    assert.ok((await ask('PUT', path, { ...BEARER, body })).status < 300);
    assert.equal((await ask('GET', path, BEARER)).text, body);
    const large = await ask('PUT', path, { ...BEARER, body: 'x'.repeat(3_000_000) }).catch((error) => error);
    assert.equal(large.status, 413);
  });

  test('events are streamed while others ask', async () => {
    const name = unique('h2');
    const stream = session().request({ ':path': `/events?topic=${name}`, ...BEARER });
    const head = await new Promise((resolve) => stream.once('response', resolve));
    assert.equal(head[':status'], 200);
    assert.match(head['content-type'], /event-stream/);
    const pieces = texts(stream);
    for (let at = 0; at < 50; at++) await ask('PUT', `/topics/${name}`, { ...BEARER, body: `value ${at}` });
    await within('the last value', until(pieces, (text) => text.includes('data: value 49\n')));
    stream.close(http2.constants.NGHTTP2_CANCEL);
  });

  test('an extended CONNECT is refused where HTTP/1.1 refuses an upgrade', async () => {
    for (const [path, fields, status] of [
      ['/no/such/path', {}, 404],
      ['/stomp', { 'sec-websocket-protocol': 'soap' }, 400],
      ['/stomp', { 'sec-websocket-version': '12' }, 426],
      ['/stomp', { origin: 'https://evil.example' }, 403],
      ['/stomp', { ':protocol': 'connect-udp' }, 501],
    ]) {
      const { head, stream } = await connect(path, fields);
      assert.equal(head[':status'], status, path + JSON.stringify(fields));
      stream.on('error', () => {});
      stream.close();
    }
  });

  test('twenty WebSockets and requests share one connection', async () => {
    const topic = `/topic/${unique('h2')}`;
    const peers = await Promise.all(Array.from({ length: 20 }, () => Peer.open('http2')));
    await Promise.all(peers.map((peer) => peer.subscribe(topic)));
    await peers[0].publish(topic, 'to all');
    const answers = await Promise.all(peers.map((peer) => peer.message()));
    assert.ok(answers.every((message) => message.body === 'to all'));
    assert.equal((await ask('GET', '/livez')).status, 200);
    await Promise.all(peers.map((peer) => peer.disconnect()));
  });

  test('a client that does not read is waited for, not the others', async () => {
    const path = `/topics/${unique('h2')}`;
    const body = 'x'.repeat(1_000_000);
    await ask('PUT', path, { ...BEARER, body });
    const slow = session().request({ ':path': path, ...BEARER });
    slow.pause();
    assert.equal((await ask('GET', '/livez')).status, 200);
    let text = '';
    for await (const piece of slow) text += piece;
    assert.equal(text, body);
  });

  test('a POST carries RSocket', async () => {
    const stream = session().request({ ':method': 'POST', ':path': '/rsocket' }, { endStream: false });
    const head = await within('a head', new Promise((resolve) => stream.once('response', resolve)));
    assert.equal(head[':status'], 200);
    // A KEEPALIVE where SETUP is due: 24 bits of length, stream 0, type 3, position 0.
    const frame = Buffer.alloc(3 + 6 + 8);
    frame.writeUIntBE(14, 0, 3);
    frame.writeUInt16BE((3 << 10) | 0x80, 7);
    stream.write(frame);
    const pieces = [];
    for await (const piece of stream) pieces.push(piece);
    const answer = Buffer.concat(pieces);
    assert.equal(answer.readUIntBE(0, 3), answer.length - 3);
    assert.deepEqual([answer.readUInt32BE(3), answer.readUInt16BE(7) >> 10, answer.readUInt32BE(9)], [0, 0x0b, 1]);
  });

  test('Engine.IO is polled', async () => {
    const opened = await ask('GET', '/socket.io/?EIO=4&transport=polling');
    assert.equal(opened.status, 200);
    const { sid } = JSON.parse(opened.text.slice(1));
    const token = JSON.stringify({ token: TOKEN });
    // From other connections too, which may be on other shards.
    for (let at = 0; at < 4; at++) {
      hangUp();
      await session().ready;
      if (at === 0) {
        const posted = await ask('POST', `/socket.io/?EIO=4&transport=polling&sid=${sid}`, { body: `40${token}` });
        assert.deepEqual([posted.status, posted.text], [200, 'ok']);
      }
      const polled = await within('a poll', ask('GET', `/socket.io/?EIO=4&transport=polling&sid=${sid}`));
      assert.equal(polled.status, 200);
      assert.ok(polled.text.length > 0);
      if (polled.text.includes('2')) {
        await ask('POST', `/socket.io/?EIO=4&transport=polling&sid=${sid}`, { body: '3' });
      }
    }
  });
});
