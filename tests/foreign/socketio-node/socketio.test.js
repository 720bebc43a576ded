// Every conversation with every version of socket.io-client over polling, over WebSocket, and over
// an upgrade from one to the other.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { BASE, CLIENTS, LIMITED, MODES, Peer, TOKEN, publish, unique, within } from './peer.js';

const JSON_VALUES = [
  'grüße 🌊 \u0000\u2028 "quoted" \\', '', 0, -1.5e300, true, null, [], {}, [[[1]]],
  { a: { b: [1, 'zwei', null, { c: '🌊' }] }, __proto__x: 1, '': 'empty' },
];

for (const version of Object.keys(CLIENTS).map(Number).sort()) {
  for (const mode of Object.keys(MODES)) {
    describe(`socket.io-client ${version} by ${mode}`, () => {
      const peers = [];
      const open = async (options) => {
        const peer = await Peer.open(version, mode, options);
        peers.push(peer);
        return peer;
      };
      afterEach(() => peers.splice(0).forEach((peer) => peer.close()));

      test('connects over the transport it asked for', async () => {
        const peer = await open();
        assert.equal(peer.transport(), mode === 'polling' ? 'polling' : 'websocket');
        assert.ok(peer.socket.id);
      });

      test('snapshot first, then live, in order', async () => {
        const topic = unique('topic');
        const [publisher, subscriber] = [await open(), await open()];
        await publisher.done('publish', topic, { bid: 1 }, { retain: true });
        assert.equal(typeof (await subscriber.done('subscribe', topic, { snapshot: true })).id, 'number');
        for (let n = 0; n < 50; n++) publisher.socket.emit('publish', topic, n);
        const [path, value, meta] = await subscriber.next('message');
        assert.deepEqual([path, value, meta.retained], [topic, { bid: 1 }, true]);
        for (let n = 0; n < 50; n++) {
          const [, live, { version: number }] = await subscriber.next('message');
          assert.deepEqual([live, number], [n, meta.version + 1 + n]);
        }
      });

      test('without a snapshot only what is new comes', async () => {
        const topic = unique('topic');
        const peer = await open();
        await peer.done('publish', topic, 'old', { retain: true });
        await peer.done('subscribe', topic, { snapshot: false });
        await peer.done('publish', topic, 'new');
        assert.deepEqual(await peer.values(1), ['new']);
      });

      test('patterns, headers and the end of a subscription', async () => {
        const topic = unique('topic');
        const peer = await open();
        await peer.done('subscribe', `${topic}/*/price`);
        await peer.done('subscribe', `${topic}/news/**`);
        await peer.done('publish', `${topic}/fx/price`, 1, { headers: { region: 'eu', 'a:b': 'c\nd' } });
        await peer.done('publish', `${topic}/fx/volume`, 2);
        await peer.done('publish', `${topic}/news/a/b`, 3);
        const [path, value, meta] = await peer.next('message');
        assert.deepEqual([path, value, meta.region, meta['a:b']], [`${topic}/fx/price`, 1, 'eu', 'c\nd']);
        assert.deepEqual((await peer.next('message')).slice(0, 2), [`${topic}/news/a/b`, 3]);
        await peer.done('unsubscribe', `${topic}/*/price`);
        await peer.done('publish', `${topic}/fx/price`, 4);
        await peer.done('publish', `${topic}/news/x`, 5);
        assert.deepEqual(await peer.values(1), [5]);
      });

      test('selectors', async () => {
        const topic = unique('topic');
        const peer = await open();
        await peer.done('subscribe', topic, { selector: "region = 'eu'" });
        await peer.done('publish', topic, 1, { headers: { region: 'us' } });
        await peer.done('publish', topic, 2, { headers: { region: 'eu' } });
        assert.deepEqual(await peer.values(1), [2]);
        assert.equal((await peer.ask('subscribe', unique('x'), { selector: 'no = (' })).code, 'bad-selector');
      });

      test('a retained value is removed', async () => {
        const topic = unique('topic');
        const peer = await open();
        await peer.done('publish', topic, 'old', { retain: true });
        await peer.done('publish', topic, null, { retain: 'remove' });
        await peer.done('subscribe', topic);
        await peer.done('publish', topic, 'new');
        assert.deepEqual(await peer.values(1), ['new']);
      });

      test('every kind of JSON comes back as it was', async () => {
        const topic = unique('grüße 🌊');
        const peer = await open();
        await peer.done('subscribe', topic);
        for (const value of JSON_VALUES) await peer.done('publish', topic, value);
        for (const value of JSON_VALUES) {
          const [path, got] = await peer.next('message');
          assert.deepEqual([path, got], [topic, value]);
        }
      });

      test('binary values, alone and inside of others', async () => {
        const topic = unique('topic');
        const peer = await open();
        const bytes = Buffer.from(Array.from({ length: 1000 }, (_, n) => n % 256));
        await peer.done('subscribe', topic);
        await peer.done('publish', topic, bytes);
        await peer.done('publish', topic, { name: 'grüße 🌊', first: bytes, more: [Buffer.of(), { last: bytes }] });
        const [, plain] = await peer.next('message');
        assert.ok(Buffer.isBuffer(plain) || plain instanceof ArrayBuffer, String(plain));
        assert.deepEqual(Buffer.from(plain), bytes);
        const [, nested] = await peer.next('message');
        assert.equal(nested.name, 'grüße 🌊');
        assert.deepEqual([nested.first, ...nested.more.slice(0, 1), nested.more[1].last].map((part) => Buffer.from(part)), [
          bytes, Buffer.of(), bytes,
        ]);
      });

      test('half a megabyte of text and of bytes', async () => {
        const topic = unique('topic');
        const peer = await open();
        const [text, bytes] = ['0123456789abcde🌊'.repeat(26_000), Buffer.alloc(500_000, 7)];
        await peer.done('subscribe', topic);
        await peer.done('publish', topic, text);
        await peer.done('publish', topic, bytes);
        assert.equal((await peer.next('message'))[1], text);
        assert.deepEqual(Buffer.from((await peer.next('message'))[1]), bytes);
      });

      test('many messages at once', async () => {
        const topic = unique('topic');
        const [publisher, subscriber] = [await open(), await open()];
        await subscriber.done('subscribe', topic);
        const values = Array.from({ length: 1000 }, (_, n) => ({ n, text: 'x'.repeat(n % 50) }));
        for (const value of values) publisher.socket.emit('publish', topic, value);
        assert.deepEqual(await subscriber.values(1000), values);
      });

      test('a queue: accepted, given back, delivered again', async () => {
        const queue = unique('queue');
        const peer = await open();
        for (const value of ['a', 'b', 'c']) await peer.done('send', queue, value);
        await peer.done('receive', queue, { prefetch: 1 });
        const [path, value, meta, done] = await peer.next('job');
        assert.deepEqual([path, value, meta.redelivered], [queue, 'a', false]);
        done();
        const [, second, , giveBack] = await peer.next('job');
        assert.equal(second, 'b');
        giveBack({ reject: true });
        const rest = [];
        for (let n = 0; n < 2; n++) {
          const [, got, { redelivered }, accept] = await peer.next('job');
          rest.push([got, redelivered]);
          accept();
        }
        assert.deepEqual(rest.sort(), [['b', true], ['c', false]]);
      });

      test('a job that was not settled goes to the next', async () => {
        const queue = unique('queue');
        const [first, second] = [await open(), await open()];
        await first.done('receive', queue);
        await first.done('send', queue, Buffer.from('work'));
        assert.deepEqual(Buffer.from((await first.next('job'))[1]), Buffer.from('work'));
        first.close();
        await second.done('receive', queue);
        const [, value, meta, done] = await second.next('job');
        assert.deepEqual([Buffer.from(value), meta.redelivered], [Buffer.from('work'), true]);
        done();
      });

      test('jobs that nobody has read are no redeliveries, however often consumers end', async () => {
        const queue = `poison/${unique('unread')}`;
        const sender = await open();
        for (let n = 0; n < 12; n++) await sender.done('send', queue, n);
        let consumer = await open();
        for (let n = 0; n < 8; n++) {
          const { id } = await consumer.done('receive', queue);
          const [, value, meta, done] = await consumer.next('job');
          assert.deepEqual([value, meta.redelivered], [n, false]);
          done();
          for (let unread = n + 1; unread < 12; unread++) await consumer.next('job');
          if (n % 2) await consumer.done('cancel', id);
          else {
            consumer.close();
            consumer = await open();
          }
        }
        await consumer.done('receive', queue);
        for (let n = 8; n < 12; n++) {
          const [, value, meta, done] = await consumer.next('job');
          assert.deepEqual([value, meta.redelivered], [n, false]);
          done();
        }
      });

      test('cancel gives a queue up', async () => {
        const queue = unique('queue');
        const [first, second] = [await open(), await open()];
        const { id } = await first.done('receive', queue, { acks: false });
        await first.done('cancel', id);
        await second.done('receive', queue, { acks: false });
        await first.done('send', queue, 1);
        assert.equal((await second.next('job'))[1], 1);
      });

      test('a service is called and answers', async () => {
        const service = unique('service');
        const [caller, server] = [await open(), await open()];
        await server.done('serve', service);
        server.socket.on('request', (path, value, meta, answer) => answer({ path, twice: value.n * 2, bytes: value.bytes }));
        for (let n = 0; n < 10; n++) {
          const { value } = await caller.done('call', service, { n, bytes: Buffer.of(n) });
          assert.deepEqual([value.path, value.twice, Buffer.from(value.bytes)], [service, n * 2, Buffer.of(n)]);
        }
        await server.done('unserve', service);
        assert.equal((await caller.ask('call', service, {}, { timeout: 500 })).code, 'no-responder');
      });

      test('a service is called by plain HTTP', async () => {
        const service = unique('service');
        const server = await open();
        await server.done('serve', service);
        server.socket.on('request', (path, value, meta, answer) => answer({ twice: value * 2 }));
        const headers = { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' };
        const response = await fetch(`${BASE}/services/${service}`, { method: 'POST', body: '21', headers });
        assert.deepEqual([response.status, await response.json()], [200, { twice: 42 }]);
      });

      test('a call that nobody answers in time', async () => {
        const service = unique('service');
        const peer = await open();
        await peer.done('serve', service);
        assert.equal((await peer.ask('call', service, 1, { timeout: 200 })).code, 'call-timeout');
      });

      test('a conversation', async () => {
        const service = unique('service');
        const [caller, server] = [await open(), await open()];
        await server.done('serve', service);
        const { id } = await caller.done('open', service, 'hello');
        const [, value, meta] = await server.next('request');
        assert.deepEqual([value, meta.last], ['hello', false]);
        await server.done('say', meta.id, 'welcome');
        assert.deepEqual((await caller.next('said')).slice(0, 2), [id, 'welcome']);
        await caller.done('say', id, 'bye', { last: true });
        const [, word, { last }] = await server.next('said');
        assert.deepEqual([word, last], ['bye', true]);
        await server.done('say', meta.id, 'bye', { last: true });
        assert.equal((await caller.next('said'))[2].last, true);
        const again = await caller.done('open', service, 'again');
        const [, , second] = await server.next('request');
        await server.done('end', second.id, 'closed for today');
        assert.equal((await caller.next('ended'))[0], again.id);
      });

      test('what is said before an end arrives before it', async () => {
        const service = unique('service');
        const [caller, server] = [await open(), await open()];
        await server.done('serve', service);
        for (let round = 0; round < 10; round++) {
          const { id } = await caller.done('open', service, 'hello');
          const [, , meta] = await server.next('request');
          const talk = (one, number) => {
            for (let n = 0; n < 3; n++) one.socket.emit('say', number, n);
            one.socket.emit('end', number, 'enough');
          };
          const heard = async (one) => {
            for (let n = 0; n < 3; n++) assert.equal((await one.next('said'))[1], n);
            assert.equal((await one.next('ended'))[1].message, 'enough');
          };
          talk(server, meta.id);
          await heard(caller);
          const { id: second } = await caller.done('open', service, id);
          talk(caller, second);
          await server.next('request');
          await heard(server);
        }
      });

      test('mistakes are answered and cost nothing else', async () => {
        const peer = await open();
        for (const [code, ...event] of [
          ['bad-destination', 'publish', 'a//b', 1],
          ['bad-destination', 'subscribe', 'a**b'],
          ['bad-destination', 'publish', 'a/*', 1],
          ['bad-frame', 'publish', 7, 1],
          ['bad-frame', 'receive', 'q', { prefetch: -1 }],
          ['unexpected-frame', 'nonsense', 1],
          ['unknown-subscription', 'unsubscribe', 'never'],
        ]) {
          const answer = await peer.ask(...event);
          assert.deepEqual([answer.ok, answer.code], [false, code], JSON.stringify([event, answer]));
        }
        peer.socket.emit('publish', 'a//b', 1);
        assert.equal((await peer.next('problem'))[0].code, 'bad-destination');
        await peer.done('publish', unique('topic'), 1);
      });

      test('what the rules forbid is refused', async () => {
        const peer = await open({ auth: LIMITED });
        await peer.done('publish', 'open/x', 1);
        for (const event of [
          ['publish', 'open/secret/x', 1], ['subscribe', 'closed/x'], ['send', 'closed/q', 1], ['receive', 'closed/q'],
          ['serve', 'open/s'], ['subscribe', 'user/robot/x'],
        ]) {
          assert.equal((await peer.ask(...event)).code, 'not-authorised', event.join(' '));
        }
        await peer.done('subscribe', `~/${unique('inbox')}`);
      });

      test('wrong credentials are refused, and new ones taken', async () => {
        const refused = new Peer(version, mode, { auth: { token: 'wrong' } });
        peers.push(refused);
        const [problem] = await refused.next(version === 4 ? 'connect_error' : 'error');
        if (version === 4) assert.equal(problem.data.code, 'login-failed');
        else assert.match(String(problem.message ?? problem), /is wrong/);
        const peer = await open({ auth: LIMITED });
        assert.equal((await peer.ask('login', { token: 'wrong' })).code, 'login-failed');
        await peer.done('login', { token: 'robot-secret' });
        await peer.done('subscribe', unique('anything'));
      });

      test('an unknown namespace is refused', async () => {
        const peer = new Peer(version, mode, { namespace: '/nowhere' });
        peers.push(peer);
        const [problem] = await peer.next(version === 4 ? 'connect_error' : 'error');
        assert.match(String(problem.message ?? problem), /Invalid namespace/);
      });

      test('an application namespace with rooms', async () => {
        const room = unique('room');
        const options = { namespace: '/app', more: ['chat', 'news'] };
        const [one, two, three] = [await open(options), await open(options), await open(options)];
        await one.done('join', room);
        await two.done('join', room);
        await three.done('to', room, 'chat', 'hi 🌊');
        assert.deepEqual([await one.next('chat'), await two.next('chat')], [['hi 🌊'], ['hi 🌊']]);
        one.socket.emit('chat', 'all', { n: 1 });
        assert.deepEqual((await three.next('chat')).slice(0, 2), ['all', { n: 1 }]);
        await publish(`io/app/${room}`, { from: 'outside' });
        assert.deepEqual((await two.next('message'))[0], { from: 'outside' });
        await two.done('leave', room);
      });

      test('heartbeats keep a quiet connection', async () => {
        const peer = await open();
        // The server pings clients of version 4; the others ping it and hear a pong.
        peer.listen(version === 4 ? peer.manager.engine : peer.manager, version === 4 ? 'ping' : 'pong', 'beat');
        for (let n = 0; n < 4; n++) await peer.next('beat');
        await peer.done('publish', unique('topic'), 1);
      });

      test('a client that was cut comes back by itself', async () => {
        const peer = await open({ reconnection: true, reconnectionDelay: 50, reconnectionDelayMax: 100 });
        const topic = unique('topic');
        peer.cut();
        await peer.next('disconnect');
        await peer.next('connect');
        await peer.done('subscribe', topic);
        await peer.done('publish', topic, 'here');
        assert.deepEqual(await peer.values(1), ['here']);
      });

      test('fifty clients hear the same', async () => {
        const topic = unique('topic');
        const crowd = await Promise.all(Array.from({ length: 50 }, () => open({ upgraded: false })));
        await Promise.all(crowd.map((peer) => peer.done('subscribe', topic)));
        crowd.slice(0, 5).forEach((peer, n) => peer.socket.emit('publish', topic, { n, bytes: Buffer.of(n) }));
        const heard = await Promise.all(crowd.map((peer) => peer.values(5)));
        const order = heard[0].map((value) => value.n);
        assert.deepEqual([...order].sort(), [0, 1, 2, 3, 4]);
        for (const values of heard) assert.deepEqual(values.map((value) => value.n), order);
      });

      test('a goodbye ends it on both sides', async () => {
        const [queue, one, two] = [unique('queue'), await open(), await open()];
        // What reaches it although it has gone is given back: goodbyes travel on another line than sends.
        await one.done('receive', queue);
        one.socket.disconnect();
        await within('end', one.next('disconnect'));
        await two.done('receive', queue, { acks: false });
        await two.done('send', queue, 'x');
        assert.equal((await two.next('job'))[1], 'x');
      });
    });
  }
}
