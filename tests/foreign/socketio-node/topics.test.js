// Topics that hold values, by socket.io-client 4 and 2: operations, histories, replays, locks, notices.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { Peer, unique } from './peer.js';

for (const version of [2, 4]) {
  for (const mode of ['polling', 'websocket']) {
    describe(`topics by socket.io-client ${version} and ${mode}`, () => {
      const peers = [];
      const open = async (options) => {
        const peer = await Peer.open(version, mode, options);
        peers.push(peer);
        return peer;
      };
      const operate = (peer, operation, ...more) => peer.done('operate', operation, ...more);
      afterEach(() => peers.splice(0).forEach((peer) => peer.close()));

      test('create, update by condition, patch', async () => {
        const [path, peer] = [unique('topic'), await open()];
        const spec = { type: 'json', history: 3 };
        assert.equal((await operate(peer, { do: 'create', path, spec })).existed, false);
        const { version: first } = await operate(peer, { do: 'update', path, value: { bid: 1 } });
        const next = { do: 'update', path, value: { bid: 2 }, if: { version: first } };
        assert.equal((await operate(peer, next)).version, first + 1);
        assert.equal((await peer.ask('operate', next)).code, 'condition-failed');
        await operate(peer, { do: 'update', path, patch: [{ op: 'add', path: '/ask', value: 3 }] });
        await operate(peer, { do: 'update', path, merge: { bid: null }, if: { at: '/bid', eq: 2 } });
        const { topics } = await operate(peer, { do: 'fetch', selector: path, values: true });
        assert.deepEqual(topics[0].value, { ask: 3 });
        const bad = await peer.ask('operate', { do: 'creat', path });
        assert.deepEqual([bad.ok, bad.code], [false, 'bad-operation']);
      });

      test('a Buffer as the value', async () => {
        const [path, peer] = [unique('topic'), await open()];
        await operate(peer, { do: 'update', path, type: 'image/png' }, Buffer.from([0, 255, 1]));
        const { topics } = await operate(peer, { do: 'fetch', selector: path, values: true });
        assert.equal(topics[0].base64 ?? Buffer.from(topics[0].text ?? '').toString('base64'), 'AP8B');
      });

      test('pages, and removal', async () => {
        const [root, peer] = [unique('topic'), await open()];
        const paths = Array.from({ length: 9 }, (_, n) => `${root}/${n}`);
        for (const path of paths) await operate(peer, { do: 'update', path, value: 1 });
        const found = [];
        for (let after; ; ) {
          const page = await operate(peer, { do: 'fetch', selector: `${root}/*`, limit: 4, ...(after && { after }) });
          found.push(...page.topics.map((topic) => topic.path));
          if (!page.more) break;
          after = page.next;
        }
        assert.deepEqual(found, paths);
        assert.equal((await operate(peer, { do: 'remove', selector: `${root}/**` })).topics, 9);
      });

      test('history, and a subscription that begins in it', async () => {
        const [path, peer] = [unique('topic'), await open()];
        await operate(peer, { do: 'create', path, spec: { history: 4 } });
        for (let n = 0; n < 6; n++) await operate(peer, { do: 'update', path, value: n });
        const { events } = await operate(peer, { do: 'history', path, last: 2 });
        assert.deepEqual(events.map((event) => event.value), [4, 5]);
        await peer.done('subscribe', path, { replay: { last: 3 } });
        await operate(peer, { do: 'update', path, value: 6 });
        assert.deepEqual(await peer.values(4), [3, 4, 5, 6]);
      });

      test('a lock has one holder, and its end gives it back', async () => {
        const name = unique('lock');
        const [first, second] = [await open(), await open()];
        const { fence } = await operate(first, { do: 'lock', name });
        assert.equal((await second.ask('operate', { do: 'lock', name })).ok, false);
        const waiting = second.ask('operate', { do: 'lock', name, timeout: '10s' });
        first.close();
        const got = await waiting;
        assert.ok(got.ok && got.fence > fence, JSON.stringify(got));
        await operate(second, { do: 'update', path: unique('topic'), value: 1, if: { locked: name } });
        await operate(second, { do: 'unlock', name });
      });

      test('a will is published when the connection is cut', async () => {
        const path = unique('topic');
        const [mortal, witness] = [await open(), await open()];
        await witness.done('subscribe', path);
        await operate(mortal, { do: 'will', path, value: 'gone' });
        if (mode === 'polling') return mortal.close();
        mortal.cut();
        assert.deepEqual(await witness.values(1), ['gone']);
      });

      test('notices of topics that come and go', async () => {
        const root = unique('topic');
        const peer = await open({ more: ['joined', 'left'] });
        await peer.done('subscribe', `${root}/*`, { notices: true });
        await operate(peer, { do: 'create', path: `${root}/a`, spec: { type: 'json' } });
        assert.equal((await peer.next('joined'))[0], `${root}/a`);
        await operate(peer, { do: 'remove', selector: `${root}/a` });
        const [path, { reason }] = await peer.next('left');
        assert.deepEqual([path, reason], [`${root}/a`, 'removed']);
      });
    });
  }
}
