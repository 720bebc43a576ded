// engine.io-client 6 and 3: the packet layer by itself. What is inside is Socket.IO's text.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { Socket as Socket6 } from 'engine.io-client';
import connect3 from 'engine.io-client-3';
import { BASE, MODES, TOKEN, unique, within } from './peer.js';

const REVISIONS = {
  4: (options) => new Socket6(BASE, { path: '/socket.io/', ...options }),
  3: (options) => connect3(BASE, { path: '/socket.io', ...options }),
};

class Peer {
  #items = [];
  #waiting = [];

  constructor(revision, mode, options = {}) {
    this.revision = revision;
    this.socket = REVISIONS[revision]({ ...MODES[mode], query: { token: TOKEN }, ...options });
    this.opened = new Promise((resolve, reject) => {
      this.socket.on('open', resolve);
      this.socket.on('error', reject);
    });
    this.closed = new Promise((resolve) => this.socket.on('close', resolve));
    this.upgraded = new Promise((resolve) => this.socket.on('upgrade', resolve));
    this.socket.on('handshake', (handshake) => (this.handshake = handshake));
    this.socket.on('message', (data) => {
      const next = this.#waiting.shift();
      if (next) next(data);
      else this.#items.push(data);
    });
  }

  async start() {
    await within('open', this.opened);
    if (this.revision === 4) this.socket.send(`0{"token":"${TOKEN}"}`);
    const connected = await this.next();
    assert.match(connected, this.revision === 4 ? /^0\{"sid":"/ : /^0$/);
  }

  next() {
    if (this.#items.length) return Promise.resolve(this.#items.shift());
    return within('message', new Promise((resolve) => this.#waiting.push(resolve)));
  }
}

for (const revision of [4, 3]) {
  for (const mode of Object.keys(MODES)) {
    describe(`engine.io revision ${revision} by ${mode}`, () => {
      const peers = [];
      const open = async () => {
        const peer = new Peer(revision, mode);
        peers.push(peer);
        await peer.start();
        if (mode === 'upgrade') await within('upgrade', peer.upgraded);
        return peer;
      };
      afterEach(() => peers.splice(0).forEach((peer) => peer.socket.close()));

      test('the handshake says what it has to', async () => {
        const peer = await open();
        assert.match(peer.handshake.sid, /^[\w-]{20,}$/);
        assert.deepEqual(peer.handshake.upgrades, mode === 'websocket' ? [] : ['websocket']);
        assert.ok(peer.handshake.pingInterval > 0 && peer.handshake.pingTimeout > 0);
        if (revision === 4) assert.ok(peer.handshake.maxPayload >= 100_000);
      });

      test('text and bytes in both directions', async () => {
        const peer = await open();
        const topic = unique('topic');
        peer.socket.send(`20["subscribe","${topic}"]`);
        assert.match(await peer.next(), /^30\[\{"ok":true/);
        peer.socket.send(`2["publish","${topic}","grüße 🌊 ${'x'.repeat(300)}"]`);
        const text = await peer.next();
        assert.ok(text.startsWith(`2["message","${topic}","grüße 🌊 x`), text);
        const bytes = Buffer.from(Array.from({ length: 300 }, (_, n) => n % 256));
        peer.socket.send(`51-["publish","${topic}",{"_placeholder":true,"num":0}]`);
        peer.socket.send(bytes);
        assert.ok((await peer.next()).startsWith(`51-["message","${topic}",{"_placeholder":true,"num":0}`));
        assert.deepEqual(Buffer.from(await peer.next()), bytes);
      });

      test('a burst keeps its order', async () => {
        const peer = await open();
        const topic = unique('topic');
        peer.socket.send(`20["subscribe","${topic}"]`);
        await peer.next();
        for (let n = 0; n < 500; n++) peer.socket.send(`2["publish","${topic}",${n}]`);
        for (let n = 0; n < 500; n++) {
          const text = await peer.next();
          assert.ok(text.startsWith(`2["message","${topic}",${n},`), `${n}: ${text}`);
        }
      });

      test('the client closes', async () => {
        const peer = await open();
        peer.socket.close();
        assert.equal(await within('close', peer.closed), 'forced close');
      });

      test('a message that is no Socket.IO ends the connection', async () => {
        const peer = await open();
        peer.socket.send('nonsense');
        await within('close', peer.closed);
      });
    });
  }
}

test('a transport nobody speaks is refused', async () => {
  const answer = await fetch(`${BASE}/socket.io/?EIO=4&transport=carrier-pigeon`);
  assert.equal(answer.status, 400);
  assert.deepEqual((await answer.json()).code, 0);
});
