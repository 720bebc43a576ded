// RSocket over HTTP/2, and what else an HTTP/2 stream can be.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { conversations } from './conversations.js';
import { connect, connection, post, status, websocketOver } from './http2.js';
import { Inbox, Peer, TOKEN, request, unique, within } from './peer.js';

for (const kind of ['POST over HTTP/2', 'WebSocket over HTTP/2']) {
  conversations(`rsocket-js by ${kind}`, (options) => Peer.open(kind, options));
}

describe('streams of HTTP/2', () => {
  // A new connection: every conversation above ended by resets, of which the server takes only so many on each.
  before(() => connection().destroy());
  after(() => connection().destroy());

  test('extended CONNECT is offered', async () => {
    const settings = await within('settings', connection().ready);
    assert.equal(settings.enableConnectProtocol, true);
  });

  test('a path that nobody answers', async () => {
    for (const stream of [post('/nowhere'), connect('/nowhere')]) {
      assert.ok([400, 404, 405].includes(await status(stream)));
      stream.close();
    }
  });

  test('a version of WebSocket that nobody speaks', async () => {
    const stream = connect('/rsocket', { 'sec-websocket-version': '8' });
    assert.ok([400, 426].includes(await status(stream)));
    stream.close();
  });

  test('the subprotocol rsocket is taken', async () => {
    const stream = connect('/rsocket', { 'sec-websocket-protocol': 'rsocket' });
    const headers = await within('response', new Promise((resolve) => stream.once('response', resolve)));
    assert.equal(headers[':status'], 200);
    assert.equal(headers['sec-websocket-protocol'], 'rsocket');
    stream.close();
  });

  test('a hundred RSocket connections on one, beside plain requests', async () => {
    const topic = unique('topic');
    const [peers, streams] = [[], []];
    for (let n = 0; n < 100; n++) {
      peers.push(await Peer.open(n % 2 ? 'POST over HTTP/2' : 'WebSocket over HTTP/2'));
      streams.push(peers[n].stream(request(topic)));
      await peers[n].respond(request('echo', String(n)));
    }
    const put = connection().request({ ':method': 'PUT', ':path': `/topics/${topic}`, authorization: `Bearer ${TOKEN}` });
    put.end('here');
    assert.equal(await status(put), 200);
    for (const stream of streams) assert.equal(await stream.text(), 'here');
    await Promise.all(peers.map((peer) => peer.close()));
  });

  test('STOMP by a WebSocket on the same connection', async () => {
    const found = websocketOver(connect('/stomp', { 'sec-websocket-protocol': 'v12.stomp' }));
    const inbox = new Inbox();
    found.on('message', (data) => inbox.put(String(data)));
    await within('opening', new Promise((resolve, reject) => found.once('open', resolve).once('error', reject)));
    found.send('CONNECT\naccept-version:1.2\nhost:h\nlogin:tide\npasscode:tide-passcode\n\n\0');
    assert.match(await inbox.next(), /^CONNECTED\n/);
    found.close();
    await within('close', new Promise((resolve) => found.once('close', resolve)));
  });
});
