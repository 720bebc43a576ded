/** Several addresses: which comes when, and what a client takes along from one server to another. */
import { Addresses, baseOf, type Ending, type Try } from "../../src/addresses.js";
import { Writer } from "../../src/bytes.js";
import { connect, type Client, type State } from "../../src/index.js";
import * as m from "../../src/messages.js";
import { equal, ok, Seen, seeded, test, unhex } from "../harness.js";
import { entry, Peer, subscribed } from "../peer.js";

const BOTH = ["websocket", "polling"] as const;
const GONE: Ending = { told: false, again: true };
const REFUSED: Ending = { told: true, again: false };
const bases = (...names: string[]) => names.map((name) => baseOf(`wss://${name}`));
const shown = ({ address, transport }: Try) => `${address.base.hostname} ${transport}`;

/** All tries of a round that comes to nothing. */
function whole(addresses: Addresses, attempt = 0, now = 0, ending = GONE): string[] {
  addresses.round(BOTH, attempt, now);
  const found: string[] = [];
  for (let next = addresses.next(); next; next = addresses.next()) {
    found.push(shown(next));
    addresses.ended(false, ending);
  }
  return found;
}

/** Begins a round, and gives what is tried first. */
function first(addresses: Addresses): string {
  addresses.round(BOTH, 0, 0);
  return shown(addresses.next()!).split(" ")[0]!;
}

test("addresses", "an address is used by HTTP, with a path that ends", () => {
  equal(baseOf("wss://a:7800").href, "https://a:7800/");
  equal(baseOf("ws://a/x?y#z").href, "http://a/x/");
  equal(baseOf("/", "https://page/deep/down?q").href, "https://page/");
  equal(whole(new Addresses(bases("a", "a:443", "a/"), seeded(1))), ["a websocket", "a polling"], "the same three times");
});

test("addresses", "a round tries everything once, the best of each address first, in an order of its own", () => {
  const addresses = new Addresses(bases("a", "b", "c"), seeded(2));
  const orders = new Map<string, number>();
  for (let round = 0; round < 6000; round++) {
    const tries = whole(addresses);
    equal(tries.slice(0, 3).every((name) => name.endsWith("websocket")), true);
    equal([...tries].sort(), ["a polling", "a websocket", "b polling", "b websocket", "c polling", "c websocket"]);
    const order = tries.slice(0, 3).map((name) => name[0]).join("");
    equal(tries.slice(3).map((name) => name[0]).join(""), order, "the order of polling");
    orders.set(order, (orders.get(order) ?? 0) + 1);
  }
  equal([...orders.keys()].sort(), ["abc", "acb", "bac", "bca", "cab", "cba"]);
  // A thousand are expected of each; six times the deviation of 29 is 174.
  for (const [order, times] of orders) ok(Math.abs(times - 1000) < 174, `${times} times ${order}`);
});

test("addresses", "many clients are spread over all, and over the others when one is lost", () => {
  const random = seeded(3);
  const clients = Array.from({ length: 2000 }, () => new Addresses(bases("a", "b", "c", "d"), random));
  const begun = new Map<string, Addresses[]>();
  for (const client of clients) {
    const name = first(client);
    client.reached(0);
    begun.set(name, [...(begun.get(name) ?? []), client]);
  }
  // 500 each, with a deviation of 19.
  for (const [name, { length }] of begun) ok(Math.abs(length - 500) < 120, `${length} at ${name}`);
  const moved = new Map<string, number>();
  for (const client of begun.get("a")!) {
    client.ended(true, GONE);
    const name = first(client);
    moved.set(name, (moved.get(name) ?? 0) + 1);
  }
  equal([...moved.keys()].sort(), ["b", "c", "d"]);
  for (const [name, count] of moved) ok(Math.abs(count - begun.get("a")!.length / 3) < 65, `${count} to ${name}`);
});

test("addresses", "the one that was lost is tried behind the others, once", () => {
  const addresses = new Addresses(bases("a", "b", "c"), seeded(4));
  for (let round = 0; round < 200; round++) {
    const name = first(addresses);
    addresses.reached(0);
    addresses.ended(true, GONE);
    ok(!addresses.more, "a lost connection ends the round");
    equal(whole(addresses)[2], `${name} websocket`);
  }
  const last = new Set(Array.from({ length: 100 }, () => whole(addresses, 3)[2]));
  equal(last.size, 3, "later rounds are at random");
});

test("addresses", "an address that refuses for good is left out, and all of them are the end", () => {
  const addresses = new Addresses(bases("a", "b"), seeded(5));
  addresses.round(BOTH, 0, 0);
  const refusing = addresses.next()!.address.base.hostname;
  equal(addresses.ended(false, REFUSED), false);
  const other = refusing === "a" ? "b" : "a";
  equal(shown(addresses.next()!), `${other} websocket`);
  equal(addresses.ended(false, GONE), false);
  for (let round = 1; round < 50; round++) equal(whole(addresses, round), [`${other} websocket`, `${other} polling`]);
  addresses.round(BOTH, 50, 0);
  addresses.next();
  equal(addresses.ended(false, REFUSED), true, "both have refused");
  // Who is let in may be asked again by the other one.
  const again = new Addresses(bases("a", "b"), seeded(5));
  again.round(BOTH, 0, 0);
  again.next();
  again.ended(false, REFUSED);
  again.next();
  again.reached(0);
  equal(again.ended(true, GONE), false);
  equal(whole(again).length, 3);
});

test("addresses", "what a server says of itself goes for all its transports, and is final once it had let the client in", () => {
  const busy = new Addresses(bases("a", "b"), seeded(6));
  equal(whole(busy, 0, 0, { told: true, again: true }).length, 2);
  equal(whole(busy, 1).length, 4);
  first(busy);
  busy.reached(0);
  equal(busy.ended(true, REFUSED), true);
});

test("addresses", "the transport that works is known of each address by itself", () => {
  const addresses = new Addresses(bases("a", "b"), seeded(7));
  addresses.round(BOTH, 0, 0);
  let next = addresses.next()!;
  while (shown(next) !== "a polling") {
    addresses.ended(false, GONE);
    next = addresses.next()!;
  }
  addresses.reached(1000);
  addresses.ended(true, GONE);
  equal(whole(addresses, 0, 2000), ["b websocket", "a polling", "b polling"]);
  const later = whole(addresses, 3, 2000);
  ok(later.indexOf("a polling") < 2 && later.indexOf("a websocket") >= 2, `after three rounds ${later}`);
  equal(whole(addresses, 0, 1000 + 5 * 60_000 + 1).length, 4, "after five minutes the best is tried again");
  addresses.round(BOTH, 0, 2000);
  addresses.forget();
  equal(whole(addresses, 0, 2000).length, 4);
});

test("addresses", "addresses of a goodbye come first in the next round, and stay until something else has come of it", () => {
  const addresses = new Addresses(bases("a", "b"), seeded(8));
  first(addresses);
  addresses.reached(0);
  addresses.ended(true, { told: true, again: true, elsewhere: ["wss://x", "https://y:444/z", "wss://b"] });
  const tries = whole(addresses).slice(0, 4).map((name) => name[0]!);
  equal(tries.slice(0, 3).sort(), ["b", "x", "y"]);
  equal(tries[3], "a");
  equal(whole(addresses, 3).length, 8, "all are known in the rounds after it");
  while (first(addresses) !== "x");
  addresses.reached(0);
  addresses.ended(true, GONE);
  equal(whole(addresses, 3).length, 8, "one that was named has worked, so all stay");
  while (first(addresses) !== "a");
  addresses.reached(0);
  addresses.ended(true, GONE);
  equal(whole(addresses, 3).length, 4, "the application's own are enough");
});

test("addresses", "an address is taken of a goodbye only if it is ours to use and as secure", () => {
  const from = (url: string, elsewhere: string[]) => {
    const addresses = new Addresses([baseOf(url)], seeded(9));
    first(addresses);
    addresses.reached(0);
    addresses.ended(true, { told: true, again: true, elsewhere });
    return whole(addresses).length / 2 - 0.5;
  };
  const strange = ["ftp://x", "javascript:alert(1)", "x", "", "//x", "/x", "data:,x", "wss:", "wss://[", "http", "file:///x"];
  equal(from("wss://a", strange), 0);
  equal(from("wss://a", ["ws://x", "http://y", "HTTP://z"]), 0, "never from TLS to none");
  equal(from("wss://a", ["WSS://x", "https://y"]), 2);
  equal(from("ws://a", ["ws://x", "http://y", "wss://z"]), 3);
  equal(from("wss://a", [`wss://x/${"y".repeat(1015)}`]), 1, "1,024 characters");
  equal(from("wss://a", [`wss://x/${"y".repeat(1016 + 1)}`]), 0, "more");
  equal(from("wss://a", Array.from({ length: 50 }, (_, at) => `wss://x${at}`)), 8);
});

test("addresses", "whatever happens, there is something to try unless all have refused", () => {
  const random = seeded(10);
  const pick = (limit: number) => Math.floor(random() * limit);
  for (let run = 0; run < 300; run++) {
    const names = ["a", "b", "c", "d"].slice(0, 1 + pick(4));
    const addresses = new Addresses(bases(...names), random);
    for (let attempt = 0, now = 0, over = false; !over; attempt++, now += pick(10_000)) {
      addresses.round(BOTH, attempt, now);
      ok(addresses.more, "an empty round");
      const seen = new Set<string>();
      for (let next = addresses.next(); next && !over; next = addresses.next()) {
        ok(!seen.has(shown(next)), "one try twice in a round");
        seen.add(shown(next));
        ok(!next.address.refused, "tried where it was refused");
        const elsewhere = pick(4) ? [] : Array.from({ length: pick(12) }, () => `wss://${"abxyz"[pick(5)]}`);
        const wasReached = pick(4) === 0;
        if (wasReached) addresses.reached(now);
        over = addresses.ended(wasReached, { told: pick(2) === 0, again: pick(8) > 0, elsewhere });
        if (wasReached) ok(!addresses.more, "a round goes on behind a connection");
      }
      if (attempt === 50) break;
    }
  }
});

function states(client: Client): Seen<State> {
  const seen = new Seen<State>();
  client.on("state", seen.push);
  return seen;
}

/** Two servers, of the epochs 5 and 6, and a client that is connected to the first. */
async function two(place: Parameters<typeof Peer.begin>[0], after: Parameters<typeof Peer.begin>[1], options = {}) {
  const [a, b] = [await Peer.begin(place, after), await Peer.begin(place, after)];
  await b.takes(false);
  const client = a.client(after, options, b);
  /** Lets the client go from one to the other. */
  const moves = async (from: Peer, to: Peer) => {
    await from.takes(false);
    await to.takes(true);
    await from.cut();
    const hello = await to.welcomes({ epoch: to === a ? 5 : 6, features: 1 });
    return hello.hex;
  };
  return { a, b, client, moves };
}

test("addresses", "one that is out of reach is passed over without waiting, by each transport", async (place, after) => {
  const { a, client } = await two(place, after, { reconnect: { base: 3_600_000, max: 3_600_000 } });
  const seen = states(client);
  await a.welcomes({ jitter: 3_600_000 });
  const connected = await seen.until(({ status }) => status === "connected");
  equal(connected.status === "connected" && connected.address, `${a.url}/`);
  ok(seen.all.every(({ status }) => status !== "waiting"), "it waited");
});

test("addresses", "a refusal for good by one is no end while another may let the client in", async (place, after) => {
  const [a, b] = [await Peer.begin(place, after), await Peer.begin(place, after)];
  await b.takes(false);
  const client = a.client(after, { token: "old" }, b);
  const seen = states(client);
  await a.opened();
  await a.hears("HELLO");
  await a.close(400, "login-failed", 0);
  for (let round = 0; round < 3; round++) await seen.until(({ status }) => status === "waiting");
  await b.takes(true);
  await b.welcomes();
  await seen.until(({ status }) => status === "connected");
  await b.takes(false);
  await b.cut();
  // It was let in, so the other one is asked again.
  await a.opened();
  await a.hears("HELLO");
  await b.takes(true);
  await a.close(324, "unsupported-version", 0);
  await b.opened();
  await b.hears("HELLO");
  await b.close(400, "login-failed", 0);
  const closed = await seen.until(({ status }) => status === "closed");
  equal(closed.status === "closed" && closed.reason.code, "login-failed");
});

test("addresses", "one works by polling only, and that is not known of the other", async (place, after) => {
  const [a, b] = [await Peer.begin(place, after, { refuse: ["websocket"] }), await Peer.begin(place, after)];
  await b.takes(false);
  const client = a.client(after, {}, b);
  const seen = states(client);
  await a.welcomes();
  equal(a.transport, "polling");
  await b.takes(true);
  await a.cut();
  await b.welcomes();
  equal(b.transport, "websocket");
  await b.takes(false);
  const before = seen.all.length;
  await b.cut();
  await a.welcomes();
  equal(a.transport, "polling");
  const tried = seen.all.slice(before).flatMap((state) => (state.status === "connecting" ? [state.transport] : []));
  equal(tried, ["polling"], "what has worked there, at once");
});

test("addresses", "a goodbye that names another server leads there, and subscriptions go on", async (place, after) => {
  const [a, b] = [await Peer.begin(place, after), await Peer.begin(place, after)];
  const client = a.client(after);
  const errors = new Seen<unknown>();
  client.on("error", errors.push);
  const values = new Seen<unknown>();
  const subscription = client.topic("t").subscribe(values.push);
  subscription.on("error", errors.push);
  subscription.on("gap", values.push);
  await a.welcomes({ features: 1 });
  await a.hears("SUBSCRIBE");
  await a.ok(1);
  await a.update(0, 10, "10", 1);
  await a.says(m.POSITION, new Writer().varint(2).varint(99));
  equal(await values.next(), 10);
  await a.close(102, "shutting-down", 1, ["ftp://no", b.url.replace("http", "ws")]);
  const hello = await b.welcomes({ epoch: 6, features: 1 });
  ok(hello.hex.endsWith("0405010263"), `the position of the first in ${hello.hex}`);
  const { request, flags } = subscribed(await b.hears("SUBSCRIBE"));
  equal(flags & m.RESUME, m.RESUME);
  await b.says(m.RECOVERED, new Writer().varint(request).u8(1).u8(1));
  await b.update(0, 11, "11", 1);
  await b.ok(request);
  equal(await values.next(), 11);
  equal(errors.all, []);
  // What was named is kept beside the address of the application, which is tried first now.
  await a.takes(false);
  await b.cut();
  await b.welcomes({ epoch: 6, features: 1 });
  await a.takes(true);
  await b.takes(false);
  await b.cut();
  await a.welcomes({ epoch: 5, features: 1 });
});

test("addresses", "a list of addresses that is cut short is a defect of the connection alone", async (place, after) => {
  const a = await Peer.begin(place, after);
  const client = a.client(after);
  const seen = states(client);
  const goodbye = (list: Writer) =>
    a.says(m.CLOSE, new Writer().varint(102).string("shutting-down").string("so").u8(1).varint(1).raw(list.done()));
  for (const list of [new Writer().varint(2).string("wss://x"), new Writer().varint(1).varint(9), new Writer().varint(1e15)]) {
    await a.welcomes();
    await goodbye(list);
    const waiting = await seen.until(({ status }) => status === "waiting");
    equal(waiting.status === "waiting" && waiting.reason.code, "bad-frame");
  }
  await a.welcomes();
  await goodbye(new Writer().varint(0).string("what is not known yet"));
  const waiting = await seen.until(({ status }) => status === "waiting");
  equal(waiting.status === "waiting" && waiting.reason.code, "shutting-down");
  await a.welcomes();
});

test("addresses", "back at a server it goes on with what it had of it, whatever another one has said", async (place, after) => {
  const { a, b, client, moves } = await two(place, after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("t/*").subscribe((value, { topic, version, removed }) =>
    seen.push([topic, version, removed ? "removed" : value]),
  );
  subscription.on("gap", seen.push);
  const announce = (peer: Peer, subscription: number, ...paths: string[]) =>
    Promise.all(paths.map((path, id) => peer.says(m.TOPIC, new Writer().varint(id).varint(subscription).string(path))));
  const value = m.ANNOUNCED | m.VALUE | 1;
  await a.welcomes({ features: 1 });
  await a.hears("SUBSCRIBE");
  await announce(a, 0, "t/busy", "t/quiet");
  await a.update(0, 10, "1", value);
  await a.update(1, 70, "2", value);
  await a.says(m.POSITION, new Writer().varint(2).varint(99));
  await a.ok(1);
  equal(await seen.next(), ["t/busy", 10, 1]);
  equal(await seen.next(), ["t/quiet", 70, 2]);

  ok((await moves(a, b)).endsWith("0405010263"), "the position of the first");
  const other = subscribed(await b.hears("SUBSCRIBE"));
  await b.says(m.RECOVERED, new Writer().varint(other.request).u8(0));
  equal(await seen.next(), { reason: "restarted" });
  const ended = await b.hears("UNSUBSCRIBE");
  await b.ok(ended.input.varint());
  const anew = subscribed(await b.hears("SUBSCRIBE"));
  await announce(b, anew.id, "t/busy", "t/only here");
  await b.update(0, 5000, "-1", value);
  await b.update(1, 6000, "-2", value);
  equal(await seen.next(), ["t/busy", 5000, -1]);
  equal(await seen.next(), ["t/only here", 6000, -2]);
  await b.ok(anew.request);
  equal(await seen.next(), ["t/quiet", 0, "removed"]);

  ok((await moves(b, a)).endsWith("0405010263"), "still the position of the first");
  const back = subscribed(await a.hears("SUBSCRIBE"));
  equal(back.flags & m.RESUME, m.RESUME);
  await announce(a, back.id, "t/busy");
  await a.says(m.RECOVERED, new Writer().varint(back.request).u8(1).u8(1));
  await a.update(0, 10, "1", value);
  await a.update(0, 11, "3", value);
  await a.update(0, 13, "4", value);
  equal(await seen.next(), ["t/busy", 11, 3]);
  equal(await seen.next(), { reason: "skipped", topic: "t/busy", missed: 1 });
  equal(await seen.next(), ["t/busy", 13, 4]);
  await a.ok(back.request);
  // What the other one had said is taken back: all values once more, except those that have come.
  const gone = await a.hears("UNSUBSCRIBE");
  await a.ok(gone.input.varint());
  const values = subscribed(await a.hears("SUBSCRIBE"));
  equal(values.flags & (m.RESUME | m.OK_LAST), m.OK_LAST);
  await announce(a, values.id, "t/busy", "t/quiet");
  await a.update(0, 13, "4", value);
  await a.update(1, 70, "2", value);
  equal(await seen.next(), ["t/quiet", 70, 2]);
  await a.ok(values.request);
  equal(await seen.next(), ["t/only here", 0, "removed"]);
  await a.update(0, 14, "5", value);
  equal(await seen.next(), ["t/busy", 14, 5]);
  // From here on it is as if there had been no other.
  await a.cut();
  ok((await a.welcomes({ features: 1 })).hex.endsWith("0405010263"), "the position of the first");
  const resumed = subscribed(await a.hears("SUBSCRIBE"));
  equal(resumed.flags & m.RESUME, m.RESUME);
  await a.says(m.RECOVERED, new Writer().varint(resumed.request).u8(1).u8(1));
  await announce(a, resumed.id, "t/busy");
  await a.update(0, 14, "5", value);
  await a.update(0, 15, "6", value);
  equal(await seen.next(), ["t/busy", 15, 6]);
  equal(client.counts.gaps, 2);
});

for (const complete of [0, 1]) {
  const name = complete ? "which knew what was missed, " : "";
  test("addresses", `once the other server, ${name}has told a position, versions are of that one`, async (place, after) => {
    const { a, b, client, moves } = await two(place, after);
    const seen = new Seen<unknown>();
    const subscription = client.topic("t").subscribe((_, { version }) => seen.push(version), { snapshot: false });
    subscription.on("gap", seen.push);
    await a.welcomes({ features: 1 });
    await a.hears("SUBSCRIBE");
    await a.ok(1);
    await a.update(0, 10, "1");
    await a.says(m.POSITION, new Writer().varint(2).varint(99));
    equal(await seen.next(), 10);
    await moves(a, b);
    const there = subscribed(await b.hears("SUBSCRIBE"));
    await b.says(m.RECOVERED, new Writer().varint(there.request).u8(complete).u8(complete));
    const version = complete ? 11 : 5000;
    await b.update(0, version, "2");
    await b.says(m.POSITION, new Writer().varint(1).varint(7));
    await b.ok(there.request);
    if (!complete) equal(await seen.next(), { reason: "restarted" });
    equal(await seen.next(), version);
    ok((await moves(b, a)).endsWith("0406010107"), "the position of the second");
    const back = subscribed(await a.hears("SUBSCRIBE"));
    await a.says(m.RECOVERED, new Writer().varint(back.request).u8(0));
    await a.update(0, 40, "3");
    equal(await seen.next(), { reason: "restarted" });
    equal(await seen.next(), 40);
    // Back at the second, which had told where the client was.
    ok((await moves(a, b)).endsWith("0406010107"), "still the position of the second");
    const again = subscribed(await b.hears("SUBSCRIBE"));
    equal(again.flags & m.RESUME, m.RESUME);
    await b.says(m.RECOVERED, new Writer().varint(again.request).u8(1).u8(1));
    await b.update(0, version, "2");
    await b.update(0, version + 1, "4");
    equal(await seen.next(), version + 1);
  });
}

test("addresses", "what is not confirmed anew is not recovered, and not compared with what came long before", async (place, after) => {
  const { a, b, client, moves } = await two(place, after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("t").subscribe((_, { version }) => seen.push(version), { snapshot: false });
  subscription.on("gap", seen.push);
  await a.welcomes({ features: 1 });
  await a.hears("SUBSCRIBE");
  await a.ok(1);
  await a.update(0, 10, "1");
  await a.says(m.POSITION, new Writer().varint(2).varint(99));
  equal(await seen.next(), 10);
  await moves(a, b);
  const there = subscribed(await b.hears("SUBSCRIBE"));
  await b.says(m.RECOVERED, new Writer().varint(there.request).u8(0));
  await b.says(m.POSITION, new Writer().varint(1).varint(7));
  await b.ok(there.request);
  await b.update(0, 3, "2");
  // No delta to anything.
  await b.says(m.UPDATES, entry(0, 4, unhex("0900"), 1 | m.DELTA));
  for (const wanted of [{ reason: "restarted" }, 3, { reason: "defect" }]) equal(await seen.next(), wanted);
  await b.hears("UNSUBSCRIBE");
  await b.hears("SUBSCRIBE");
  await moves(b, a);
  const anew = subscribed(await a.hears("SUBSCRIBE"));
  equal(anew.flags & m.RESUME, 0);
  await a.ok(anew.request);
  await a.update(anew.id, 12, "3");
  equal(await seen.next(), 12);
  await moves(a, b);
  const last = subscribed(await b.hears("SUBSCRIBE"));
  equal(last.flags & m.RESUME, 0);
  await b.update(last.id, 5, "4");
  equal(await seen.next(), { reason: "restarted" });
  equal(await seen.next(), 5);
});

test("addresses", "what began at the other server, or is not recovered, begins anew and says so", async (place, after) => {
  const { a, b, client, moves } = await two(place, after);
  const seen = new Seen<unknown>();
  const watch = (path: string, options: object) => {
    const subscription = client.topic(path).subscribe((_, { version }) => seen.push([path, version]), options);
    subscription.on("gap", ({ reason }) => seen.push([path, reason]));
  };
  const answer = async (peer: Peer) => {
    const { request, flags } = subscribed(await peer.hears("SUBSCRIBE"));
    await peer.ok(request);
    return flags & m.RESUME;
  };
  watch("passing", { recoverable: false });
  await a.welcomes();
  await answer(a);
  await a.update(0, 10, "1");
  equal(await seen.next(), ["passing", 10]);
  await moves(a, b);
  equal(await seen.next(), ["passing", "restarted"]);
  await answer(b);
  watch("late", {});
  await answer(b);
  await b.update(0, 5000, "2");
  await b.update(1, 6000, "2");
  equal(await seen.next(), ["passing", 5000]);
  equal(await seen.next(), ["late", 6000]);
  // The same server again: nothing has changed for it.
  await b.cut();
  await b.welcomes({ epoch: 6, features: 1 });
  equal([await answer(b), await answer(b)], [0, m.RESUME]);
  await b.update(0, 5001, "3");
  equal(await seen.next(), ["passing", 5001]);
  await moves(b, a);
  equal(await seen.next(), ["passing", "restarted"]);
  equal(await seen.next(), ["late", "restarted"]);
  equal([await answer(a), await answer(a)], [0, 0]);
  await a.update(0, 11, "4");
  await a.update(1, 20, "4");
  equal(await seen.next(), ["passing", 11]);
  equal(await seen.next(), ["late", 20]);
});

test("addresses", "what came before the subscription stood counts as well", async (place, after) => {
  const { a, b, client, moves } = await two(place, after);
  const seen = new Seen<unknown>();
  const subscription = client.topic("t").subscribe((_, { version }) => seen.push(version));
  subscription.on("gap", seen.push);
  await a.welcomes();
  await a.hears("SUBSCRIBE");
  await a.update(0, 10, "1");
  equal(await seen.next(), 10);
  await moves(a, b);
  equal(subscribed(await b.hears("SUBSCRIBE")).flags & m.RESUME, 0);
  await b.update(0, 3, "2");
  equal(await seen.next(), { reason: "restarted" });
  equal(await seen.next(), 3);
});

test("addresses", "no address at all, or one that is none, is refused at once", () => {
  for (const wrong of [[], "nowhere", ["wss://a", "http://["]]) {
    let error: unknown;
    try {
      connect(wrong as string[]).close();
    } catch (thrown) {
      error = thrown;
    }
    // In a page, "nowhere" is a path.
    ok(error instanceof TypeError || (wrong === "nowhere" && globalThis.location), `${JSON.stringify(wrong)} was taken`);
  }
});
