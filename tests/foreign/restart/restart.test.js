// The server is killed and started again: versions and values are the same by every protocol, nothing comes twice,
// nothing is told as missing that is not, and what is gone is gone for everybody.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Events, sdk, seen, socketio, stream, watch } from './clients.js';
import { Inbox, Server, within } from './server.js';

const config = (durable) => `
[server]
shards = 2

[native]
reconnect_jitter = "0s"

[[topic]]
match = "kept/**"
persistent = ${durable}
retain = true
history_count = 50

[[topic]]
match = "room/**"
presence = true
`;

async function begin(t, durable = true) {
  const server = await Server.begin(config(durable), durable);
  t.after(() => server.stop());
  return server;
}

function client(t, server, options) {
  const made = sdk(server, options);
  t.after(() => made.close());
  return made;
}

async function restart(server) {
  await server.kill();
  await server.start();
}

const resumed = ({ subscription }) =>
  within('recovery', new Promise((resolve) => subscription.on('recovered', resolve)));

test('versions and values are the same by every protocol, before and after a kill', async (t) => {
  const server = await begin(t);
  const topic = 'kept/room';
  const reader = client(t, server);
  const watcher = watch(reader, topic, { replay: { last: 10 } });
  await within('subscription', watcher.subscription.ready);
  const events = new Events(server, topic);
  await events.open();
  const socket = socketio(server, topic);
  t.after(() => socket.socket.close());
  await server.publish(topic, 1, 2, 3);
  const before = await server.history(topic);
  assert.deepEqual(before.map(([, value]) => value), [1, 2, 3]);
  for (const inbox of [watcher.inbox, events.inbox, socket.inbox]) {
    assert.deepEqual((await inbox.take(3)).map(seen), before);
  }

  reader.pause();
  events.stop.abort();
  socket.socket.disconnect();
  await restart(server);
  // Published before anybody is back, and after.
  await server.publish(topic, 4, 5);
  const back = resumed(watcher);
  reader.resume();
  socket.socket.connect();
  await events.open();
  assert.deepEqual(await back, { complete: true });
  await server.publish(topic, 6);
  const after = await server.history(topic);
  assert.deepEqual(after.map(([, value]) => value), [1, 2, 3, 4, 5, 6]);
  const news = after.slice(3);
  for (const inbox of [watcher.inbox, events.inbox, socket.inbox]) {
    assert.deepEqual((await inbox.take(3)).map(seen), news);
    assert.equal(inbox.all.length, 6, 'nothing comes twice');
  }
  assert.deepEqual(watcher.gaps, []);
  assert.deepEqual(events.notices.all, ['ready', 'recovered']);
  assert.ok(socket.inbox.all.every(({ jumps }) => !jumps), JSON.stringify(socket.inbox.all));
  assert.equal(events.inbox.all[3].follows, before[2][0]);

  // A new subscriber sees the same, and no gap where the server was started anew.
  const fresh = watch(reader, topic, { replay: { last: 10 } });
  assert.deepEqual((await fresh.inbox.take(6)).map(seen), after);
  const rsocket = await stream(server, topic, 'last 10');
  t.after(() => rsocket.close());
  assert.deepEqual((await rsocket.inbox.take(6)).map(seen), after);
  assert.equal(Number(rsocket.inbox.all[3].follows), before[2][0]);

  // A version that the SDK shows is one that conditions know.
  const { version } = fresh.inbox.all.at(-1);
  await reader.operate({ do: 'update', path: topic, value: { n: 7 }, if: { version } });
  assert.deepEqual(seen(await fresh.inbox.next()), [version + 1, 7]);
  assert.deepEqual(seen(await rsocket.inbox.next()), [version + 1, 7]);
  assert.deepEqual(fresh.gaps, []);
});

test('a client that stays away for several restarts gets all of it once', async (t) => {
  const server = await begin(t);
  const topic = 'kept/long';
  const reader = client(t, server);
  const watcher = watch(reader, topic, { replay: { last: 10 } });
  await within('subscription', watcher.subscription.ready);
  await server.publish(topic, 1);
  await watcher.inbox.next();
  reader.pause();
  for (let life = 1; life <= 3; life++) {
    await restart(server);
    await server.publish(topic, 10 * life, 10 * life + 1);
  }
  const back = resumed(watcher);
  reader.resume();
  assert.deepEqual(await back, { complete: true });
  await watcher.inbox.take(6);
  assert.deepEqual(watcher.inbox.all.map(seen), await server.history(topic));
  assert.deepEqual(watcher.gaps, []);
});

test('a pattern hears once that something may be missing, and gets nothing twice', async (t) => {
  const server = await begin(t);
  const reader = client(t, server);
  const watcher = watch(reader, 'kept/*', { replay: { last: 10 } });
  await within('subscription', watcher.subscription.ready);
  await server.publish('kept/a', 1, 2);
  await server.publish('kept/b', 1);
  await watcher.inbox.take(3);
  reader.pause();
  await restart(server);
  await server.publish('kept/a', 3);
  await server.publish('kept/c', 1);
  const back = resumed(watcher);
  reader.resume();
  assert.deepEqual(await back, { complete: false });
  await watcher.inbox.take(2);
  await server.publish('kept/b', 2);
  await watcher.inbox.next();
  for (const name of ['kept/a', 'kept/b', 'kept/c']) {
    const got = watcher.inbox.all.filter(({ topic }) => topic === name);
    assert.deepEqual(got.map(seen), await server.history(name), name);
  }
  assert.deepEqual(watcher.gaps, [{ reason: 'restarted' }]);
});

test('what is gone after a restart is removed, and presence shows who is there', async (t) => {
  for (const durable of [true, false]) {
    const server = await begin(t, durable);
    // By long polling as well.
    const reader = client(t, server, { transports: [durable ? 'websocket' : 'polling'] });
    const [ann, bob] = [client(t, server), client(t, server)];
    const shown = new Map();
    const changed = new Inbox();
    for (const path of ['$sys/presence/room/one/*', 'here/*']) {
      const subscription = reader.topic(path).subscribe((value, { topic, removed }) => {
        if (removed) shown.delete(topic);
        else shown.set(topic, value);
        changed.put(topic);
      });
      await within('subscription', subscription.ready);
    }
    for (const member of [ann, bob]) {
      await within('subscription', member.topic('room/one').subscribe().ready);
    }
    await ann.topic('here/ann').publish(1, { retain: true });
    await bob.topic('here/bob').publish(1, { retain: true });
    await changed.take(4);
    assert.equal(shown.size, 4);

    for (const member of [reader, ann, bob]) member.pause();
    await restart(server);
    ann.resume();
    await ann.topic('here/ann').publish(2, { retain: true });
    reader.resume();
    // Two of before are gone, as is the session that ann had; what there is now comes anew.
    // The server is asked after each change, because presence may change after the first answer.
    const there = async () => {
      const answer = await server.rest('GET', '/topics?selector=[$sys/presence/**,here/*]&values=true');
      return (await answer.json()).topics.map(({ path }) => path).sort();
    };
    while ((await there()).join() !== [...shown.keys()].sort().join()) await changed.next('change');
    assert.equal(shown.get('here/ann'), 2);
    assert.ok(!shown.has('here/bob'));
  }
});
