// The scenarios of the test suite that comes with the specification of Socket.IO 5, by polling, by
// WebSocket and after an upgrade.
//
// The suite expects a server that sends back what it hears: `message` as `message-back`, and
// `message-with-ack` in its ack. Here the companion in the namespace `/echo` does the first, and a
// service that it serves does the second, which is an event of the namespace `/`.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { AUTH, BEARER, CARRIERS, Socket, companion } from './wire.js';
import { unique } from './peer.js';

const service = unique('echo');
const [FIRST, SECOND] = [Buffer.of(1, 2, 3), Buffer.of(4, 5, 6)];
const PLACEHOLDERS = '{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}';

let echo;
before(async () => { echo = await companion(service); });
after(() => echo.close());

const json = (packet, start) => {
  assert.ok(packet.startsWith(start), packet);
  return JSON.parse(packet.slice(start.length));
};

for (const [carrier, open] of Object.entries(CARRIERS)) {
  describe(`the suite of Socket.IO 5 by ${carrier}`, () => {
    const wires = [];
    const fresh = async (headers) => {
      const wire = await open(4, { headers });
      wires.push(wire);
      return wire;
    };
    const joined = async (namespace) => {
      const wire = await fresh();
      assert.match(await wire.join(namespace), /^40/);
      return wire;
    };
    const connected = (packet, namespace = '') => {
      const { sid, pid, ...rest } = json(packet, `40${namespace}`);
      assert.match(sid, /^.{8,}$/);
      // A client that may come back is told a second id, as by the reference with its recovery on.
      assert.equal(typeof pid, 'string');
      assert.deepEqual(rest, {});
      return sid;
    };
    after(() => wires.forEach((wire) => wire.close?.()));

    describe('connect', () => {
      test('to the main namespace', async () => {
        const wire = await fresh(BEARER);
        await wire.send('40');
        assert.notEqual(connected(await wire.next()), wire.handshake.sid, 'ids of sessions are secrets');
      });

      test('to the main namespace with a payload', async () => {
        const wire = await fresh();
        await wire.send(`40${AUTH}`);
        connected(await wire.next());
        await wire.send('420["subscribe","~/inbox"]');
        assert.equal(json(await wire.next(), '430')[0].ok, true, 'the payload says who it is');
      });

      test('to the main namespace without credentials where they are needed', async () => {
        const wire = await fresh();
        await wire.send('40');
        assert.equal(json(await wire.next(), '44').data.code, 'login-required');
        await wire.send(`40${AUTH}`);
        connected(await wire.next());
      });

      test('to a custom namespace', async () => {
        for (const packet of ['40/custom,', '40/custom']) {
          const wire = await fresh(BEARER);
          await wire.send(packet);
          connected(await wire.next(), '/custom,');
        }
      });

      test('to a custom namespace with a payload', async () => {
        const wire = await fresh();
        await wire.send(`40/custom,${AUTH}`);
        connected(await wire.next(), '/custom,');
      });

      test('to two namespaces at once, under ids of their own', async () => {
        const wire = await fresh();
        await wire.send(`40${AUTH}`, `40/custom,${AUTH}`);
        const [main, custom] = (await wire.take(2)).sort((one, two) => one.length - two.length);
        assert.notEqual(connected(main), connected(custom, '/custom,'));
      });

      test('to an unknown namespace', async () => {
        const wire = await fresh(BEARER);
        await wire.send('40/random');
        assert.equal(json(await wire.next(), '44/random,').message, 'Invalid namespace');
        await wire.send('40');
        connected(await wire.next());
      });

      test('by a packet that is none', async () => {
        const wire = await fresh();
        await wire.send('4abc');
        await wire.closed();
      });
    });

    describe('disconnect', () => {
      test('from the main namespace: the transport stays', async () => {
        const wire = await joined('/');
        await wire.send('41');
        await wire.send(`40/custom,${AUTH}`);
        connected(await wire.next(), '/custom,');
      });

      test('from a custom namespace: the main one stays', async () => {
        const wire = await joined('/');
        connected(await wire.join('/custom'), '/custom,');
        await wire.send('41/custom');
        await wire.send(`420["call","${service}","message to main namespace"]`);
        assert.deepEqual(json(await wire.next(), '430'), [{ ok: true, value: 'message to main namespace' }]);
      });

      test('and back into it', async () => {
        const wire = await joined('/echo');
        await wire.send('41/echo,', `40/echo,${AUTH}`);
        connected(await wire.next(), '/echo,');
        await wire.send('42/echo,["message","again"]');
        assert.equal(await wire.next(), '42/echo,["message-back","again"]');
      });
    });

    describe('message', () => {
      test('plain text', async () => {
        const wire = await joined('/echo');
        await wire.send('42/echo,["message",1,"2",{"3":[true]}]');
        assert.equal(await wire.next(), '42/echo,["message-back",1,"2",{"3":[true]}]');
      });

      test('binary attachments', async () => {
        const wire = await joined('/echo');
        await wire.send(`452-/echo,["message",${PLACEHOLDERS}]`, FIRST, SECOND);
        assert.deepEqual(await wire.take(3), [`452-/echo,["message-back",${PLACEHOLDERS}]`, FIRST, SECOND]);
      });

      test('plain text with an ack', async () => {
        const wire = await joined('/');
        await wire.send(`42456["call","${service}",[1,"2",{"3":[false]}]]`);
        assert.equal(await wire.next(), '43456[{"ok":true,"value":[1,"2",{"3":[false]}]}]');
      });

      test('binary attachments with an ack', async () => {
        const wire = await joined('/');
        await wire.send(`452-789["call","${service}",[${PLACEHOLDERS}]]`, FIRST, SECOND);
        assert.deepEqual(await wire.take(3), [`462-789[{"ok":true,"value":[${PLACEHOLDERS}]}]`, FIRST, SECOND]);
      });

      for (const [what, packet] of [
        ['an unknown type', '4abc'], ['a payload of another form', '42{}'],
        ['an ack id that is none', '42abc["publish","x",1]'],
      ]) {
        test(`${what} ends the connection`, async () => {
          const wire = await joined('/');
          await wire.send(packet);
          await wire.closed();
        });
      }
    });
  });
}

test('a WebSocket that connects to no namespace is closed', async () => {
  await (await Socket.open(4)).closed();
});
