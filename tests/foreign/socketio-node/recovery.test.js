// Connection state recovery, which socket.io-client knows from 4.6 on.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { MODES, Peer, publish, unique } from './peer.js';

const AGAIN = { reconnection: true, reconnectionDelay: 300, reconnectionDelayMax: 300, randomizationFactor: 0 };

for (const mode of Object.keys(MODES)) {
  describe(`recovery by ${mode}`, () => {
    const peers = [];
    const open = async (options) => {
      const peer = await Peer.open(4, mode, { ...AGAIN, ...options });
      peers.push(peer);
      return peer;
    };
    afterEach(() => peers.splice(0).forEach((peer) => peer.close()));

    const broken = async (peer, meanwhile) => {
      peer.cut();
      await peer.next('disconnect');
      await meanwhile();
      await peer.next('connect');
    };

    test('what was missed comes, under the same id', async () => {
      const topic = unique('topic');
      const peer = await open();
      await peer.done('subscribe', topic, { recoverable: true });
      await peer.done('publish', topic, 'seen');
      assert.deepEqual(await peer.values(1), ['seen']);
      const { id } = peer.socket;
      await broken(peer, async () => {
        for (let n = 0; n < 10; n++) await publish(topic, n);
      });
      assert.equal(peer.socket.recovered, true);
      assert.equal(peer.socket.id, id);
      await publish(topic, 'live');
      assert.deepEqual(await peer.values(11), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 'live']);
    });

    test('a client that has heard nothing yet is recovered too', async () => {
      const topic = unique('topic');
      const peer = await open();
      await peer.done('subscribe', topic, { recoverable: true });
      await broken(peer, () => publish(topic, 'missed'));
      assert.equal(peer.socket.recovered, true);
      assert.deepEqual(await peer.values(1), ['missed']);
    });

    test('again and again, with patterns and snapshots', async () => {
      const topic = unique('topic');
      const peer = await open();
      for (let n = 0; n < 20; n++) await publish(`${topic}/${n}`, `old ${n}`, true);
      await peer.done('subscribe', `${topic}/*`, { recoverable: true, snapshot: true });
      const snapshot = await peer.values(20);
      assert.deepEqual(new Set(snapshot), new Set(Array.from({ length: 20 }, (_, n) => `old ${n}`)));
      for (let round = 0; round < 3; round++) {
        await broken(peer, async () => {
          for (let n = 0; n < 20; n++) await publish(`${topic}/${n}`, `${round} ${n}`, true);
        });
        assert.equal(peer.socket.recovered, true);
        const missed = await peer.values(20);
        assert.deepEqual(new Set(missed), new Set(Array.from({ length: 20 }, (_, n) => `${round} ${n}`)));
      }
      await publish(`${topic}/0`, 'last');
      assert.deepEqual(await peer.values(1), ['last']);
    });

    test('without a recoverable subscription it begins anew', async () => {
      const peer = await open();
      await peer.done('subscribe', unique('topic'));
      const { id } = peer.socket;
      await broken(peer, async () => {});
      assert.equal(peer.socket.recovered, false);
      assert.notEqual(peer.socket.id, id);
    });
  });
}
