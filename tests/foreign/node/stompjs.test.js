// Conversations with @stomp/stompjs, each over TCP and over WebSocket, every frame type among them.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';
import { hangUp } from './http2.js';
import { Peer, TRANSPORTS, VERSIONS, unique, within } from './peer.js';

for (const transport of TRANSPORTS) {
  describe(transport, () => {
    if (transport === 'http2') after(hangUp);
    const peers = [];
    const open = async (options) => {
      const peer = await Peer.open(transport, options);
      peers.push(peer);
      return peer;
    };
    const two = () => Promise.all([open(), open()]);
    afterEach(async () => {
      await Promise.all(peers.splice(0).map((peer) => peer.cut()));
    });

    for (const version of VERSIONS) {
      test(`CONNECT and DISCONNECT in ${version}`, async () => {
        const peer = await open({ versions: [version] });
        assert.equal(peer.connected.headers.version ?? '1.0', version);
        await peer.disconnect();
      });

      test(`publish and subscribe in ${version}`, async () => {
        const topic = `/topic/${unique('topic')}`;
        const [producer, consumer] = await Promise.all([open({ versions: [version] }), open({ versions: [version] })]);
        await consumer.subscribe(topic);
        for (let n = 0; n < 100; n++) producer.client.publish({ destination: topic, body: `grüße ${n} 🌊`, headers: { number: `${n}` } });
        for (let n = 0; n < 100; n++) {
          const message = await consumer.message();
          assert.equal(message.body, `grüße ${n} 🌊`);
          assert.equal(message.headers.number, `${n}`);
        }
      });
    }

    test('the highest of several versions is spoken', async () => {
      const peer = await open({ versions: ['1.0', '1.1', '1.2'] });
      assert.equal(peer.connected.headers.version, '1.2');
    });

    test('a wrong passcode is refused', async () => {
      const peer = await open({ passcode: 'wrong' });
      const error = await peer.error();
      assert.equal(error.headers.code, 'login-failed');
    });

    test('header escapes', async () => {
      const topic = `/topic/${unique('topic')}`;
      const peer = await open();
      await peer.subscribe(topic);
      const odd = 'colon: backslash\\ newline\n return\r end';
      await peer.publish(topic, 'x', { odd });
      assert.equal((await peer.message()).headers.odd, odd);
    });

    test('binary bodies', async () => {
      const topic = `/topic/${unique('topic')}`;
      const peer = await open();
      await peer.subscribe(topic);
      const body = Uint8Array.from({ length: 1024 }, (_, n) => n % 256);
      await peer.publish(topic, body, { 'content-type': 'application/octet-stream' });
      assert.deepEqual((await peer.message()).binaryBody, body);
    });

    test('a body of a megabyte', async () => {
      const topic = `/topic/${unique('topic')}`;
      const peer = await open();
      await peer.subscribe(topic);
      const body = '0123456789abcdef'.repeat(65536);
      await peer.publish(topic, body);
      assert.equal((await peer.message()).body, body);
    });

    test('UNSUBSCRIBE', async () => {
      const topic = `/topic/${unique('topic')}`;
      const peer = await open();
      const subscription = await peer.subscribe(topic);
      await peer.subscribe(`${topic}.fence`);
      await peer.receipt((receipt) => subscription.unsubscribe(receipt));
      await peer.publish(topic, 'unwanted');
      await peer.publish(`${topic}.fence`, 'fence');
      assert.deepEqual(await peer.texts(1), ['fence']);
    });

    test('ACK in client mode is cumulative', async () => {
      const queue = `/queue/${unique('queue')}`;
      const [first, second] = await two();
      await first.subscribe(queue, { ack: 'client' });
      for (const body of ['1', '2', '3']) await second.publish(queue, body);
      const messages = [await first.message(), await first.message(), await first.message()];
      await first.receipt((receipt) => messages[1].ack(receipt));
      await first.disconnect();
      await second.subscribe(queue);
      assert.deepEqual(await second.texts(1), ['3']);
    });

    test('ACK and NACK in client-individual mode', async () => {
      const queue = `/queue/${unique('queue')}`;
      const [first, second] = await two();
      await first.subscribe(queue, { ack: 'client-individual' });
      for (const body of ['1', '2', '3']) await second.publish(queue, body);
      const messages = [await first.message(), await first.message(), await first.message()];
      await second.subscribe(queue, { ack: 'client-individual' });
      await first.receipt((receipt) => messages[2].ack(receipt));
      await first.receipt((receipt) => messages[0].nack(receipt));
      const again = await second.message();
      assert.equal(again.body, '1');
      await second.receipt((receipt) => again.ack(receipt));
      await first.cut();
      assert.deepEqual(await second.texts(1), ['2'], 'what was not acknowledged returns when the connection is cut');
    });

    test('BEGIN, COMMIT and ABORT', async () => {
      const topic = `/topic/${unique('topic')}`;
      const [producer, consumer] = await two();
      await consumer.subscribe(topic);
      const aborted = producer.client.begin();
      producer.client.publish({ destination: topic, body: 'never', headers: { transaction: aborted.id } });
      aborted.abort();
      const kept = producer.client.begin();
      producer.client.publish({ destination: topic, body: 'kept', headers: { transaction: kept.id } });
      kept.commit();
      await producer.publish(topic, 'end');
      assert.deepEqual(await consumer.texts(2), ['kept', 'end']);
    });

    test('ERROR carries code and receipt-id, then the connection ends', async () => {
      const peer = await open();
      peer.client.commit('never begun');
      const error = await peer.error();
      assert.equal(error.headers.code, 'unknown-transaction');
      assert.ok(error.headers.message);
      assert.ok(error.body.length > 0);
      const close = await peer.closed();
      if (transport !== 'tcp') assert.equal(close.code, 1008);
    });

    test('heart-beats both ways keep a silent connection', async () => {
      const beats = { sent: 0, got: 0 };
      let enough;
      const passed = new Promise((resolve) => { enough = resolve; });
      const debug = (line) => {
        if (line === '>>> PING') beats.sent++;
        if (line === '<<< PONG') beats.got++;
        if (beats.sent >= 4 && beats.got >= 4) enough();
      };
      // By itself the client gives up after 600 ms, which a machine that is busy may take.
      const heartbeats = { heartbeatIncoming: 300, heartbeatOutgoing: 300, heartbeatToleranceMultiplier: 30 };
      const peer = await open({ ...heartbeats, debug });
      await within('four beats each way', passed);
      assert.ok(peer.client.connected);
    });

    test('request and reply over a temporary queue', async () => {
      const queue = `/queue/${unique('queue')}`;
      const [requester, responder] = await two();
      await responder.subscribe(queue);
      await requester.subscribe('/temp-queue/answers');
      await requester.publish(queue, 'question', { 'reply-to': '/temp-queue/answers' });
      const request = await responder.message();
      await responder.publish(request.headers['reply-to'], `answer to ${request.body}`);
      assert.deepEqual(await requester.texts(1), ['answer to question']);
    });

    test('wildcards, composites and selectors', async () => {
      const root = `/topic/${unique('topic')}`;
      const [producer, consumer] = await two();
      await consumer.subscribe(`${root}.*`, { id: 'star' });
      await consumer.subscribe(`${root}.**`, { id: 'rest' });
      await consumer.subscribe(`${root}.a,${root}.b.c`, { id: 'both' });
      await consumer.subscribe(`${root}.a`, { id: 'large', selector: "size > 10 AND colour = 'blue'" });
      await producer.publish(`${root}.a,${root}.b.c`, 'x', { size: '50', colour: 'blue' });
      const seen = [];
      while (seen.length < 6) seen.push((await consumer.message()).headers.subscription);
      assert.deepEqual(seen.sort(), ['both', 'both', 'large', 'rest', 'rest', 'star']);
    });

    test('retained values and credit', async () => {
      const topic = `/topic/${unique('topic')}`;
      const queue = `/queue/${unique('queue')}`;
      const [one, other] = await two();
      await one.publish(topic, 'kept', { retain: 'set' });
      await one.subscribe(topic);
      assert.deepEqual(await one.texts(1), ['kept']);
      await one.subscribe(queue, { ack: 'client-individual', credit: '1,0' });
      for (const body of ['1', '2']) await other.publish(queue, body);
      const first = await one.message();
      await other.subscribe(queue, { ack: 'client-individual' });
      assert.deepEqual(await other.texts(1), ['2']);
      await one.receipt((receipt) => first.ack(receipt));
    });
  });
}
