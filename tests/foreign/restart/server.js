// A server with a store, which tests kill and start again at the same address.

import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const WAIT_MS = Number(process.env.TIDERACE_WAIT ?? '10') * 1000;

/** Bounds failure only. */
export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} in ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What arrives, in order; can be waited for. */
export class Inbox {
  all = [];
  #taken = 0;
  #waiting = [];

  put(item) {
    this.all.push(item);
    this.#settle();
  }

  next(what = 'item') {
    return within(what, new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#settle();
    }));
  }

  async take(count, what) {
    const found = [];
    while (found.length < count) found.push(await this.next(what));
    return found;
  }

  #settle() {
    while (this.#waiting.length && this.#taken < this.all.length) this.#waiting.shift()(this.all[this.#taken++]);
  }
}

/** Below the ports that the kernel hands to outgoing connections: none of those takes it while the server is down. */
async function freePort() {
  for (;;) {
    const port = randomInt(20_000, 32_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(() => true, () => false);
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

const answers = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => (socket.destroy(), resolve(true)));
    socket.on('error', () => resolve(false));
  });

export class Server {
  static async begin(config, durable = true) {
    const server = new Server();
    server.folder = mkdtempSync(join(tmpdir(), 'tiderace-restart-'));
    server.config = join(server.folder, 'tiderace.toml');
    const store = durable ? `[store]\ndirectory = ${JSON.stringify(join(server.folder, 'store'))}\n` : '';
    writeFileSync(server.config, `${store}${config}`);
    server.port = await freePort();
    await server.start();
    return server;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async start() {
    const listen = `127.0.0.1:${this.port}`;
    this.process = spawn(process.env.TIDERACE_BINARY, ['serve', '--config', this.config, '--listen', listen], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.log = '';
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on('data', (text) => (this.log += text));
    const ended = once(this.process, 'exit').then(() => {
      this.ended = true;
    });
    this.ended = false;
    this.exit = ended;
    while (!(await answers(this.port))) {
      if (this.ended) throw new Error(`the server did not start:\n${this.log}`);
      await pause(10);
    }
  }

  /** As kill -9 does. */
  async kill() {
    this.process.kill('SIGKILL');
    await this.exit;
  }

  async stop() {
    if (!this.ended) await this.kill();
    rmSync(this.folder, { recursive: true });
  }

  async rest(method, path, value) {
    const headers = value === undefined ? {} : { 'Content-Type': 'application/json' };
    const response = await fetch(`${this.url}${path}`, { method, headers, body: value && JSON.stringify(value) });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    return response;
  }

  /** Publishes, and waits until it is stored. */
  async publish(topic, ...values) {
    for (const value of values) await this.rest('PUT', `/topics/${topic}`, { n: value });
  }

  /** What the topic keeps: versions and values. */
  async history(topic) {
    const { events } = await (await this.rest('GET', `/topics/${topic}?history&last=100`)).json();
    return events.map(({ version, value }) => [version, value.n]);
  }
}
