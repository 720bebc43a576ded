// What every RSocket client must be able to do, whatever carries it: `conversations(name, open)` registers the tests.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import * as rs from './peer.js';
import { ErrorCodes, MANY, request, unique } from './peer.js';

/** A responder of services: what is asked for goes through `answer`. */
export function responder(answer) {
  const calls = new rs.Inbox();
  return {
    calls,
    requestResponse(payload, stream) {
      calls.put(payload);
      answer(payload, stream);
      return { cancel: () => calls.put('cancelled'), onExtension() {} };
    },
    requestChannel(payload, n, complete, stream) {
      calls.put(payload);
      stream.onNext({ data: Buffer.from(`first ${payload.data}`) }, false);
      if (!complete) stream.request(MANY);
      return {
        onNext: ({ data }, last) => {
          stream.onNext({ data: Buffer.from(`then ${data}`) }, false);
          if (last) stream.onComplete();
        },
        onComplete: () => stream.onComplete(),
        onError: (error) => calls.put(error),
        onExtension() {},
        request() {},
        cancel: () => calls.put('cancelled'),
      };
    },
  };
}

export function conversations(name, open) {
  describe(name, () => {
    const peers = [];
    const peer = async (options) => {
      const one = await open(options);
      peers.push(one);
      return one;
    };
    afterEach(() => Promise.all(peers.splice(0).map((one) => one.close())));

    test('publish, confirmed, and fetch', async () => {
      const [topic, one] = [unique('topic'), await peer()];
      await rs.http('PUT', `/topics/${topic}`, 'before');
      assert.equal(String((await one.respond(request(topic))).data), 'before');
      await one.respond(request(topic, 'after', rs.options({ retain: true })));
      assert.equal(await (await rs.http('GET', `/topics/${topic}`)).text(), 'after');
    });

    test('a snapshot, then what is published by fire-and-forget, in order', async () => {
      const [topic, one, other] = [unique('topic'), await peer(), await peer()];
      await rs.http('PUT', `/topics/${topic}`, 'now');
      const stream = one.stream(request(topic));
      assert.equal(await stream.text(), 'now');
      for (let n = 0; n < 50; n++) await other.fire(request(topic, String(n)));
      assert.deepEqual(await stream.texts(50), Array.from({ length: 50 }, (_, n) => String(n)));
    });

    test('a pattern, whose items say their paths', async () => {
      const [root, one] = [unique('topic'), await peer()];
      await rs.http('PUT', `/topics/${root}/a/price`, '0');
      const stream = one.stream(request(`${root}/*/price`));
      const paths = [];
      paths.push(rs.propertiesOf(await stream.next(), rs.MESSAGE).path);
      await one.respond(request(`${root}/b/size`, '1'));
      await one.respond(request(`${root}/b/price`, '2'));
      const last = await stream.next();
      paths.push(rs.propertiesOf(last, rs.MESSAGE).path);
      assert.equal(String(last.data), '2');
      assert.deepEqual(paths, [`${root}/a/price`, `${root}/b/price`]);
    });

    test('without credit the newest stays', async () => {
      const [topic, one] = [unique('topic'), await peer()];
      await rs.http('PUT', `/topics/${topic}`, '0');
      const stream = one.stream(request(topic), 1);
      assert.equal(await stream.text(), '0');
      for (let n = 1; n <= 20; n++) await one.respond(request(topic, String(n)));
      stream.control.request(1);
      assert.equal(await stream.text(), '20');
      await one.respond(request(topic, '21'));
      stream.control.request(MANY);
      stream.control.request(MANY);
      assert.equal(await stream.text(), '21');
    });

    test('cancel ends a stream and nothing else', async () => {
      const [topic, one] = [unique('topic'), await peer()];
      const [first, second] = [one.stream(request(topic)), one.stream(request(topic))];
      await one.respond(request(topic, 'a'));
      assert.deepEqual([await first.text(), await second.text()], ['a', 'a']);
      first.control.cancel();
      await one.respond(request(topic, 'b'));
      assert.equal(await second.text(), 'b');
      await one.respond(request(topic, 'c'));
      assert.equal(await second.text(), 'c');
      assert.ok(first.items.size <= 1, 'at most what was under way');
    });

    test('a queue: credit is the window, and cancel gives the rest back', async () => {
      const [queue, one, other] = [unique('queue'), await peer(), await peer()];
      for (const job of ['a', 'b', 'c']) await one.respond(request(`queue:${queue}`, job));
      const first = one.stream(request(`queue:${queue}`), 1);
      assert.equal(await first.text(), 'a');
      first.control.request(1); // settles the first
      assert.equal(await first.text(), 'b');
      first.control.cancel(); // gives back the second
      const second = other.stream(request(`queue:${queue}`));
      assert.deepEqual((await second.texts(2)).sort(), ['b', 'c']);
    });

    test('channels publish, and each message is acknowledged', async () => {
      const [topic, one] = [unique('topic'), await peer()];
      const stream = one.stream(request(topic));
      const channel = one.channel(request(topic, '0'));
      await channel.next();
      for (const n of [1, 2]) channel.control.onNext({ data: Buffer.from(String(n)) }, n === 2);
      await channel.next();
      await channel.next();
      await rs.within('end of the channel', channel.ended);
      assert.deepEqual(await stream.texts(3), ['0', '1', '2']);
    });

    test('echo of a response, a stream and a channel', async () => {
      const one = await peer();
      assert.equal(String((await one.respond(request('echo', 'hello'))).data), 'hello');
      const stream = one.stream(request('echo', 'tick'), 2);
      assert.deepEqual(await stream.texts(2), ['tick', 'tick']);
      stream.control.request(1);
      assert.equal(await stream.text(), 'tick');
      stream.control.cancel();
      const channel = one.channel(request('echo', '0'));
      for (const n of [1, 2]) channel.control.onNext({ data: Buffer.from(String(n)) }, n === 2);
      assert.deepEqual(await channel.texts(3), ['0', '1', '2']);
      assert.equal(await rs.within('end of the channel', channel.ended), 'complete');
    });

    test('fragments both ways', async () => {
      const one = await peer({ mtu: 1024 });
      const data = Buffer.from(Array.from({ length: 300_000 }, (_, n) => n % 251));
      assert.deepEqual((await one.respond(request('echo', data))).data, data);
      const topic = unique('topic');
      const stream = one.stream(request(topic));
      await one.respond(request(topic, data));
      assert.deepEqual((await stream.next()).data, data);
    });

    test('a service, served here and called from here and by HTTP', async () => {
      const service = unique('service');
      const server = responder(({ data }, stream) => stream.onNext({ data: Buffer.from(`${data}!`) }, true));
      const [one, caller] = [await peer({ responder: server }), await peer()];
      const serving = one.stream(request(`serve:${service}`));
      await serving.next(); // it serves
      assert.equal(String((await caller.respond(request(`service:${service}`, 'a'))).data), 'a!');
      assert.equal(await (await rs.http('POST', `/services/${service}`, 'b')).text(), 'b!');
      serving.control.cancel();
      await until(async () => {
        const { code } = await caller.refused(request(`service:${service}`, 'a'));
        return code === ErrorCodes.REJECTED || code === ErrorCodes.APPLICATION_ERROR;
      });
    });

    test('a service that says no', async () => {
      const service = unique('service');
      const server = responder((_, stream) => stream.onError(new Error('sold out')));
      const one = await peer({ responder: server });
      await one.stream(request(`serve:${service}`)).next();
      const error = await one.refused(request(`service:${service}`, 'a'));
      assert.equal(error.code, ErrorCodes.APPLICATION_ERROR);
      assert.match(error.message, /sold out/);
    });

    test('a conversation between two clients', async () => {
      const service = unique('service');
      const [one, caller] = [await peer({ responder: responder() }), await peer()];
      await one.stream(request(`serve:${service}`)).next();
      const channel = caller.channel(request(`service:${service}`, 'a'));
      assert.equal(await channel.text(), 'first a');
      channel.control.onNext({ data: Buffer.from('b') }, false);
      assert.equal(await channel.text(), 'then b');
      channel.control.onComplete();
      assert.equal(await rs.within('end', channel.ended), 'complete');
    });

    test('properties, a type of the data of its own, and JSON', async () => {
      const [topic, one] = [unique('topic'), await peer()];
      const stream = one.stream(request(topic, undefined, rs.options({ properties: true, details: true })));
      await one.respond(request(topic, '{"bid":1}', rs.dataType('application/json'), rs.properties({ region: 'eu' })));
      const item = await stream.next();
      assert.equal(String(item.data), '{"bid":1}');
      assert.deepEqual(rs.propertiesOf(item), { 'content-type': 'application/json', region: 'eu' });
      assert.match(rs.propertiesOf(item, rs.MESSAGE).version, /^[1-9][0-9]*$/);
    });

    test('mistakes are answered and cost nothing else', async () => {
      const one = await peer();
      for (const route of ['a//b', 'queue:', 'service:a/*/b']) {
        const { code } = await one.refused(request(route, 'x'));
        assert.equal(code, ErrorCodes.INVALID, route);
      }
      const { code } = await one.refused(request(`service:${unique('nobody')}`, 'x'));
      assert.ok(code === ErrorCodes.REJECTED || code === ErrorCodes.APPLICATION_ERROR, String(code));
      assert.equal(String((await one.respond(request('echo', 'alive'))).data), 'alive');
    });

    test('who may what, by name and password', async () => {
      const one = await peer({ auth: rs.simple('limited', 'limited-passcode') });
      const topic = `open/${unique('topic')}`;
      await one.respond(request(topic, 'allowed'));
      const denied = await one.refused(request(`closed/${unique('topic')}`, 'x'));
      assert.match(denied.message, /not-authorised|may not/);
      await one.respond(request(topic, 'still there'));
    });

    test('wrong credentials end the connection', async () => {
      const one = await peer({ auth: rs.bearer('wrong') });
      one.respond(request('echo', 'x')).catch(() => {});
      const error = await rs.within('end', one.closed);
      assert.equal(error.code, ErrorCodes.REJECTED_SETUP);
    });

    test('keepalives are answered for longer than the lifetime', async () => {
      const one = await peer({ keepAlive: 100, lifetime: 4000 });
      const stream = one.stream(request('echo', 'tick'), 50);
      assert.deepEqual(await stream.texts(50), Array(50).fill('tick'));
    });

    test('leases', async () => {
      const one = await peer({ lease: 64 });
      const answers = Array.from({ length: 40 }, (_, n) => one.respond(request('echo', String(n))));
      const texts = (await Promise.all(answers)).map(({ data }) => String(data));
      assert.deepEqual(texts, Array.from({ length: 40 }, (_, n) => String(n)));
    });

    test('fifty clients', async () => {
      const topic = unique('topic');
      const crowd = await Promise.all(Array.from({ length: 50 }, () => peer()));
      const streams = crowd.map((one) => one.stream(request(topic)));
      await Promise.all(crowd.map((one) => one.respond(request('echo', 'ready'))));
      await until(async () => {
        await crowd[0].respond(request(topic, 'begin'));
        return streams.every((stream) => stream.items.size > 0);
      });
      for (let n = 0; n < 10; n++) await crowd[n].respond(request(topic, String(n)));
      for (const stream of streams) {
        let text;
        do text = await stream.text();
        while (text === 'begin');
        assert.deepEqual([text, ...(await stream.texts(9))], Array.from({ length: 10 }, (_, n) => String(n)));
      }
    });
  });
}

/** Asks again until it is so; every try ends by an answer, the whole by the same limit as any wait. */
export async function until(so) {
  const deadline = Date.now() + 10_000;
  for (;;) {
    try {
      if (await so()) return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    if (Date.now() > deadline) throw new Error('it never came to be');
  }
}
