// A way to a running server that can be cut or made silent, as networks are.
import { once } from "node:events";
import { connect, createServer } from "node:net";

/** Characters; a target is far below. */
const HEAD_LINE_MAX = 4096;
const proxies = new Map();
let count = 0;

export async function create(target) {
  const { hostname, port } = new URL(target);
  const proxy = { pairs: new Set(), down: false, waiting: new Set() };
  const server = createServer((near) => {
    if (proxy.down) return near.destroy();
    const far = connect(Number(port), hostname);
    const pair = { near, far, asked: "" };
    proxy.pairs.add(pair);
    const end = () => {
      near.destroy();
      far.destroy();
      proxy.pairs.delete(pair);
    };
    for (const [from, to] of [[near, far], [far, near]]) {
      from.setNoDelay(true);
      from.on("data", (bytes) => {
        if (pair.silent) return;
        to.write(bytes);
        note(proxy, pair, from === near ? bytes : undefined);
      });
      from.on("error", end).on("close", end);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  proxies.set(++count, Object.assign(proxy, { server }));
  return { id: count, url: `http://127.0.0.1:${server.address().port}` };
}

/** Keeps the beginning of the request that the server has not answered: nobody sends a second one before the answer. */
function note(proxy, pair, bytes) {
  if (!bytes) pair.asked = "";
  else if (pair.asked.length < HEAD_LINE_MAX) pair.asked += bytes.toString("latin1");
  for (const look of proxy.waiting) look();
}

/** Resolves as soon as the server has a poll of the client that marks its requests with `client=NAME`, unanswered. */
export function polled(id, name) {
  const { pairs, waiting } = proxies.get(id);
  return new Promise((resolve) => {
    const look = () => {
      const targets = [...pairs].map(({ asked }) => /^GET (\S+) /.exec(asked)?.[1] ?? "");
      const queries = targets.map((target) => new URL(target, "http://proxy").searchParams);
      if (!queries.some((query) => query.has("sid") && query.get("client") === name)) return;
      waiting.delete(look);
      resolve();
    };
    waiting.add(look);
    look();
  });
}

/** Drops all connections; while `down` no new one is taken. */
export function cut(id, down = false) {
  const proxy = proxies.get(id);
  proxy.down = down;
  for (const { near, far } of proxy.pairs) {
    near.resetAndDestroy();
    far.resetAndDestroy();
  }
}

export function up(id) {
  proxies.get(id).down = false;
}

/** The connections there are now carry nothing any more, without ending. */
export function silence(id) {
  for (const pair of proxies.get(id).pairs) pair.silent = true;
}

export async function destroy(id) {
  cut(id, true);
  proxies.get(id).server.close();
  proxies.delete(id);
}
