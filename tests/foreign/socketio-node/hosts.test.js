// Virtual hosts by socket.io-client 4 and 2: the `Host` of the requests that carry it decides.

import assert from 'node:assert/strict';
import dns from 'node:dns';
import { afterEach, describe, test } from 'node:test';
import { BASE, Peer, unique, within } from './peer.js';

const KEEPER = { user: 'keeper', password: 'tide-passcode' };
const { port } = new URL(BASE);
const by = (host) => ({ base: `http://${host}:${port}` });

// The names are this machine's; clients cannot be told another `Host` than that of the address.
const { lookup } = dns;
dns.lookup = (name, options, done) =>
  name.endsWith('.example') ? lookup('127.0.0.1', options, done) : lookup(name, options, done);

for (const version of [2, 4]) {
  for (const mode of ['polling', 'websocket', 'upgrade']) {
    describe(`virtual hosts by socket.io-client ${version} and ${mode}`, () => {
      const peers = [];
      const open = async (host, options = {}) => {
        const peer = await Peer.open(version, mode, { ...by(host), ...options });
        peers.push(peer);
        return peer;
      };
      afterEach(() => peers.splice(0).forEach((peer) => peer.close()));

      test('tenants with the same names, and who sees both', async () => {
        const name = unique('same');
        const [shop, bank] = [await open('shop.example'), await open('bank.example')];
        const whole = await open('127.0.0.1');
        for (const peer of [shop, bank]) await peer.done('subscribe', `${name}/*`);
        await whole.done('subscribe', `*/${name}/*`);
        await shop.done('publish', `${name}/a`, 'of the shop');
        await bank.done('publish', `${name}/a`, 'of the bank');
        assert.deepEqual((await shop.next('message')).slice(0, 2), [`${name}/a`, 'of the shop']);
        assert.deepEqual((await bank.next('message')).slice(0, 2), [`${name}/a`, 'of the bank']);
        const seen = [await whole.next('message'), await whole.next('message')];
        assert.deepEqual(seen.map(([path]) => path).sort(), [`@bank/${name}/a`, `@shop/${name}/a`]);
        const answer = await shop.ask('subscribe', '~/x/'.repeat(600));
        assert.equal(answer.ok, false);
        assert.doesNotMatch(answer.message ?? '', /@shop/);
      });

      test('who is bound to a host', async () => {
        const keeper = await open('shop.example', { auth: KEEPER });
        await keeper.done('publish', unique('t'), 1);
        const peer = new Peer(version, mode, { ...by('bank.example'), auth: KEEPER });
        peers.push(peer);
        const event = version === 4 ? 'connect_error' : 'error';
        const [error] = await within('refusal', peer.next(event));
        assert.match(JSON.stringify(error?.data ?? error?.message ?? error), /wrong-host|virtual host/);
      });
    });
  }
}
