// rsocket-js comes back: the connection is cut below it, and no stream notices.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import * as rs from './peer.js';
import './http2.js';
import { Peer, TRANSPORTS, request, unique } from './peer.js';

for (const kind of Object.keys(TRANSPORTS)) {
  describe(`rsocket-js resumes over ${kind}`, () => {
    const peers = [];
    const open = async (options) => {
      // Its own state is in hexadecimal text: the client turns tokens into text and back.
      const one = await Peer.open(kind, { resume: Buffer.from(randomBytes(16).toString('hex')), ...options });
      peers.push(one);
      return one;
    };
    afterEach(() => Promise.all(peers.splice(0).map((one) => one.close())));

    test('a topic goes on without gap or repetition, over five cuts', async () => {
      const [topic, one, other] = [unique('topic'), await open(), await open()];
      const stream = one.stream(request(topic));
      await one.respond(request(topic, 'ready'));
      assert.equal(await stream.text(), 'ready');
      for (let round = 0; round < 5; round++) {
        one.line.cut();
        for (let n = 0; n < 20; n++) await other.respond(request(topic, `${round} ${n}`));
        assert.deepEqual(await stream.texts(20), Array.from({ length: 20 }, (_, n) => `${round} ${n}`));
      }
    });

    test('a request that was under way is answered', async () => {
      const one = await open();
      assert.equal(String((await one.respond(request('echo', 'before'))).data), 'before');
      const answers = Array.from({ length: 10 }, (_, n) => one.respond(request('echo', String(n))));
      one.line.cut();
      const texts = (await Promise.all(answers)).map(({ data }) => String(data));
      assert.deepEqual(texts, Array.from({ length: 10 }, (_, n) => String(n)));
    });

    test('a queue keeps its place', async () => {
      const [queue, one] = [unique('queue'), await open()];
      for (const job of ['a', 'b', 'c']) await rs.http('POST', `/queues/${queue}`, job);
      const stream = one.stream(request(`queue:${queue}`), 1);
      assert.equal(await stream.text(), 'a');
      one.line.cut();
      stream.control.request(1);
      assert.equal(await stream.text(), 'b');
      stream.control.request(1);
      assert.equal(await stream.text(), 'c');
    });
  });
}
