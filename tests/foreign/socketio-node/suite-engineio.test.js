// The scenarios of the test suites that come with the specifications of Engine.IO 4 and 3.
//
// The suites expect a server that echoes messages. Here what is inside of Engine.IO is Socket.IO, and
// the companion in the namespace `/echo` sends back what it hears.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Polling, Socket, ask, binaryPayload, companion, payload, upgrade } from './wire.js';
import { TOKEN, unique } from './peer.js';

// Our native protocol is carried by revision 4 alone.
const PATHS = { 4: ['/socket.io/', '/engine.io/'], 3: ['/socket.io/'] };
const BYTES = Buffer.of(1, 2, 3, 4);
const hello = (text) => `42/echo,["message",${JSON.stringify(text)}]`;
const back = (text) => `42/echo,["message-back",${JSON.stringify(text)}]`;
const ATTACHED = '451-/echo,["message",{"_placeholder":true,"num":0}]';
const ATTACHED_BACK = '451-/echo,["message-back",{"_placeholder":true,"num":0}]';

let echo;
before(async () => { echo = await companion(unique('echo')); });
after(() => echo.close());

for (const revision of [4, 3]) {
  const EIO = `EIO=${revision}`;
  const query = `token=${TOKEN}`;

  const joined = async (Carrier, namespace = '/echo', options = {}) => {
    if (!options.query) options = { query: Carrier === Polling && revision === 3 ? `${query}&b64=1` : query };
    const wire = await Carrier.open(revision, options);
    if (revision === 3) assert.equal(await wire.next(), '40', 'revision 3 is in the namespace / at once');
    assert.ok((await wire.join(namespace)).startsWith(`40${namespace}`));
    return wire;
  };

  describe(`the suite of Engine.IO ${revision}`, () => {
    for (const path of PATHS[revision]) {
      describe(`handshake at ${path}`, () => {
        const open = (handshake, upgrades) => {
          const keys = ['maxPayload', 'pingInterval', 'pingTimeout', 'sid', 'upgrades'];
          assert.deepEqual(Object.keys(handshake).sort(), keys);
          assert.equal(handshake.maxPayload, 1_000_000);
          assert.equal(typeof handshake.sid, 'string');
          assert.deepEqual(handshake.upgrades, upgrades);
          assert.deepEqual([handshake.pingInterval, handshake.pingTimeout], [1000, 4000]);
        };

        test('polling opens a session', async () => {
          open((await Polling.open(revision, { query: `${query}&b64=1`, path })).handshake, ['websocket']);
        });

        test('WebSocket opens a session', async () => {
          const socket = await Socket.open(revision, { query, path });
          open(socket.handshake, []);
          socket.close();
        });

        test('an invalid EIO is refused', async () => {
          for (const wrong of ['', '&EIO=abc', '&EIO=-1', '&EIO=5', '&EIO=']) {
            assert.equal((await ask(`transport=polling${wrong}`, { path })).status, 400, wrong);
            assert.equal(await Socket.refusal(`transport=websocket${wrong}`, path), 400, wrong);
          }
        });

        test('an invalid transport is refused', async () => {
          for (const wrong of ['', '&transport=abc', '&transport=']) {
            assert.equal((await ask(EIO + wrong, { path })).status, 400, wrong);
            assert.equal(await Socket.refusal(EIO + wrong, path), 400, wrong);
          }
        });

        test('an invalid method is refused', async () => {
          for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
            assert.equal((await ask(`${EIO}&transport=polling`, { path, method })).status, 400, method);
          }
        });
      });
    }

    describe('messages by polling', () => {
      test('one text packet', async () => {
        const wire = await joined(Polling);
        const answer = await wire.post(payload(revision, hello('hello')));
        assert.deepEqual([answer.status, answer.text], [200, 'ok']);
        assert.equal(await wire.next(), back('hello'));
      });

      test('several text packets', async () => {
        const wire = await joined(Polling);
        assert.equal((await wire.post(payload(revision, hello('test1'), hello('test2'), hello('test3')))).text, 'ok');
        assert.deepEqual(await wire.take(3), ['test1', 'test2', 'test3'].map(back));
      });

      test('text and base64', async () => {
        const wire = await joined(Polling);
        const mark = revision === 4 ? 'b' : 'b4';
        const body = payload(revision, hello('hello'), ATTACHED, `${mark}${BYTES.toString('base64')}`);
        assert.equal((await wire.post(body)).text, 'ok');
        assert.deepEqual(await wire.take(3), [back('hello'), ATTACHED_BACK, BYTES]);
      });

      if (revision === 3) {
        test('text and binary', async () => {
          const wire = await joined(Polling, '/echo', { query: `token=${TOKEN}` });
          const body = binaryPayload(hello('hello'), ATTACHED, Buffer.concat([Buffer.of(4), BYTES]));
          assert.equal((await wire.post(body, 'application/octet-stream')).text, 'ok');
          assert.deepEqual(await wire.take(3), [back('hello'), ATTACHED_BACK, BYTES]);
        });
      }

      test('an invalid packet ends the session', async () => {
        for (const body of revision === 4 ? ['abc', '', '9'] : ['abc', '', '1:9', '10:4']) {
          const wire = await joined(Polling);
          assert.equal((await wire.post(body)).status, 400, body);
          assert.equal((await wire.request()).status, 400, body);
        }
      });

      test('a second poll ends the session', async () => {
        const wire = await joined(Polling);
        // A ping may be the answer of one before the other has come; then it is held again.
        const held = async (pings = 0) => {
          const answer = await wire.request();
          if (answer.text !== '2' || pings === 5) return answer;
          assert.equal((await wire.send('3')).text, 'ok');
          return held(pings + 1);
        };
        // Which of them comes first is not known: they travel on connections of their own.
        const answers = (await Promise.all([held(), held()])).sort((a, b) => a.status - b.status);
        assert.deepEqual(answers.map(({ status }) => status), [200, 400]);
        assert.deepEqual(wire.read(answers[0]), ['1']);
        assert.equal((await wire.request()).status, 400);
      });
    });

    describe('messages by WebSocket', () => {
      test('a text packet', async () => {
        const wire = await joined(Socket);
        await wire.send(hello('hello'));
        assert.equal(await wire.next(), back('hello'));
        wire.close();
      });

      test('a binary packet', async () => {
        const wire = await joined(Socket);
        await wire.send(ATTACHED, BYTES);
        assert.deepEqual(await wire.take(2), [ATTACHED_BACK, BYTES]);
        wire.close();
      });

      test('an invalid packet ends the session', async () => {
        for (const packet of ['abc', '', '9', Buffer.of()]) {
          const wire = await joined(Socket);
          wire.socket.send(packet);
          await wire.closed();
        }
      });
    });

    // Side by side, so that their waiting counts once.
    describe('heartbeats', { concurrency: true }, () => {
      test('pings and pongs by polling', async () => {
        const wire = await joined(Polling, '/custom');
        for (let n = 0; n < 3; n++) {
          if (revision === 3) assert.equal((await wire.send('2')).text, 'ok');
          // The first ping may have come with what was the answer to CONNECT.
          if (!wire.packets.length) await wire.more();
          assert.equal(wire.packets.shift(), revision === 4 ? '2' : '3');
          if (revision === 4) assert.equal((await wire.send('3')).text, 'ok');
        }
      });

      test('pings and pongs by WebSocket', async () => {
        const wire = await joined(Socket, '/custom');
        for (let n = 0; n < 3; n++) {
          if (revision === 3) await wire.send('2');
          if (!wire.packets.length) await wire.more();
          assert.equal(wire.packets.shift(), revision === 4 ? '2' : '3');
          if (revision === 4) await wire.send('3');
        }
        wire.close();
      });

      test('a silent session ends, by polling', async () => {
        const wire = await joined(Polling, '/custom');
        // The pings of another session tell the server's time: six of them take longer than the timeout.
        const clock = await Socket.open(4, { query });
        await clock.join('/custom');
        for (let n = 0; n < 6; n++) {
          while (!clock.packets.length) await clock.more();
          assert.equal(clock.packets.shift(), '2');
          await clock.send('3');
        }
        clock.close();
        const answer = await wire.request();
        assert.ok(answer.status === 400 || wire.read(answer).at(-1) === '1', answer.text);
        assert.equal((await wire.request()).status, 400);
      });

      test('a silent session ends, by WebSocket', async () => {
        const wire = await joined(Socket, '/custom');
        while (!wire.ended) await wire.more();
        assert.ok(wire.packets.every((packet) => ['2', '1'].includes(packet)), wire.packets);
      });
    });

    describe('close', () => {
      test('by polling', async () => {
        const wire = await joined(Polling);
        const [poll, post] = await Promise.all([wire.request(), wire.post(payload(revision, '1'))]);
        assert.equal(post.text, 'ok');
        // The poll is let go, unless the POST overtook it or a ping was there before it.
        const pinged = revision === 4 && poll.text === '2';
        if (poll.status === 200 && !pinged) assert.deepEqual(wire.read(poll), ['6']);
        else assert.ok(pinged || poll.status === 400, poll.text);
        assert.equal((await wire.request()).status, 400);
      });

      test('by WebSocket', async () => {
        const wire = await joined(Socket);
        await wire.send('1');
        await wire.closed();
      });
    });

    describe('upgrade', () => {
      const takeover = (polling) => new Socket(revision, polling.query.replace(/^EIO=\d&?/, ''));

      test('from polling to WebSocket', async () => {
        const polling = await joined(Polling);
        const socket = takeover(polling);
        await socket.send('2probe');
        assert.equal(await socket.next(), '3probe');
        const poll = await polling.request();
        assert.equal(poll.status, 200);
        assert.equal(polling.read(poll).at(-1), '6', 'the poll ends by a noop');
        await socket.send('5', hello('hello'));
        assert.equal(await socket.next(), back('hello'));
        socket.close();
      });

      test('polling is refused afterwards, the WebSocket lives on', async () => {
        const polling = await joined(Polling);
        const socket = takeover(polling);
        await socket.send('2probe', '5', hello('first'));
        assert.deepEqual(await socket.take(2), ['3probe', back('first')]);
        assert.equal((await polling.request()).status, 400);
        assert.equal((await polling.post(payload(revision, hello('lost')))).status, 400);
        await socket.send(hello('hello'));
        assert.equal(await socket.next(), back('hello'));
        socket.close();
      });

      test('a second WebSocket is closed, the first lives on', async () => {
        const polling = await joined(Polling);
        const socket = await upgrade(polling);
        await socket.send(hello('first'));
        assert.equal(await socket.next(), back('first'));
        const second = takeover(polling);
        await second.send('2probe').catch(() => {});
        await second.closed();
        await socket.send(hello('hello'));
        assert.equal(await socket.next(), back('hello'));
        socket.close();
      });
    });
  });
}
