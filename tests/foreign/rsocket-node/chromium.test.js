// A browser speaks RSocket through a WebSocket that is a stream of HTTP/2 (RFC 8441), over TLS, beside requests and
// events on the same connection.
//
// Browsers do so only on a connection that is there already and whose server offers it: first a page comes by HTTP/2,
// then the WebSocket beside it. The server, $TIDERACE_BINARY, is the suite's own, with a certificate made on the spot, so
// that its counters say what the browser did. CHROMIUM names the browser, by default /usr/bin/chromium.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { TOKEN, unique, within } from './peer.js';

const { TIDERACE_BINARY: BINARY, TIDERACE_CONFIG: CONFIG } = process.env;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const WAIT_MS = 8_000;
const PAGE = fileURLToPath(new URL('page.js', import.meta.url));
// What keeps it from asking the world for anything.
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const runs = (program) => {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};
const missing = !runs(BINARY) ? `no server at ${BINARY}` : `no browser at ${CHROMIUM}`;
const left = runs(BINARY) && runs(CHROMIUM) ? false : missing;
if (left && process.env.CI === 'true') throw new Error(`cannot be left out: ${missing}`);

describe('Chromium over TLS', { skip: left }, () => {
  let [browser, server, page, address] = [];

  before(async () => {
    const options = ['--config', CONFIG, '--listen', '127.0.0.1:0', '--log-format', 'json', '--tls-self-signed'];
    server = spawn(BINARY, ['serve', ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
    const lines = [];
    const listening = new Promise((resolve, reject) => {
      createInterface(server.stderr)
        .on('line', (line) => {
          lines.push(line);
          if (line.includes('"event":"listening"')) resolve(JSON.parse(line).address);
        })
        .on('close', () => reject(new Error(`the server is gone: ${lines.join('\n')}`)));
    });
    address = await within('server', listening);
    browser = await chromium.launch({ executablePath: CHROMIUM, headless: true, args: FLAGS });
    const context = await browser.newContext({ ignoreHTTPSErrors: true });
    page = await context.newPage();
    page.setDefaultTimeout(WAIT_MS);
    await page.addInitScript({ path: PAGE });
    await page.goto(`${origin('https')}/livez`);
  });

  after(async () => {
    await browser?.close();
    if (!server) return;
    const gone = new Promise((resolve) => server.once('exit', (code) => resolve(code)));
    server.kill();
    assert.equal(await within('end of the server', gone), 0);
  });

  const origin = (scheme) => `${scheme}://localhost:${address.split(':')[1]}`;

  /** The counters of that name, summed; read over HTTP/1.1 without TLS, so that reading counts as neither. */
  const metrics = async (...names) => {
    const headers = { Authorization: `Bearer ${TOKEN}` };
    const text = await (await fetch(`http://${address}/metrics`, { headers })).text();
    const lines = text.split('\n').map((line) => /^([a-z0-9_]+)(\{.*\})? (\d+)$/.exec(line) ?? []);
    const sum = (name) => lines.filter(([, found]) => found === name).reduce((total, [, , , value]) => total + Number(value), 0);
    return names.map(sum);
  };
  const state = async () => {
    const names = ['tls_handshakes_total', 'http2_streams', 'rsocket_connections_opened_total', 'rsocket_streams'];
    const [handshakes, open, sessions, requests] = await metrics(...names.map((name) => `tiderace_${name}`));
    return { handshakes, open, sessions, requests };
  };
  /** What is counted, once it is as expected: counters follow what they count. */
  const counts = async (expected) => {
    const end = Date.now() + WAIT_MS;
    const differs = (found) => Object.keys(expected).some((name) => found[name] !== expected[name]);
    let found = await state();
    while (Date.now() < end && differs(found)) found = await state();
    for (const name of Object.keys(expected)) assert.equal(found[name], expected[name], `${name} of ${JSON.stringify(found)}`);
    return found;
  };
  /** By which protocols the page got what lies there, once it knows of so many times. */
  const protocols = async (path, count) => {
    const url = origin('https') + path;
    await page.waitForFunction(([url, count]) => performance.getEntriesByName(url).length >= count, [url, count]);
    return page.evaluate((url) => performance.getEntriesByName(url).map((entry) => entry.nextHopProtocol), url);
  };

  test('the page came by HTTP/2', async () => {
    assert.deepEqual(await protocols('/livez', 1), ['h2']);
    await counts({ handshakes: 1, open: 0, sessions: 0 });
  });

  test('RSocket by a WebSocket over HTTP/2', async () => {
    const start = await counts({ open: 0 });
    const topic = unique('topic');
    const url = `${origin('wss')}/rsocket`;
    await page.evaluate(async ([url, token]) => (globalThis.peer = await RSocketInPage.open(url, token)), [url, TOKEN]);
    // An echo for as long as it is asked for.
    const echoed = await page.evaluate(async () => {
      peer.ask(1, 'echo', 'again', 3);
      await peer.arrived(1, 3);
      peer.more(1, 2);
      await peer.arrived(1, 5);
      const response = await peer.respond(3, 'echo', 'once');
      peer.cancel(1);
      return { stream: peer.items[1], response };
    });
    assert.deepEqual(echoed, { stream: Array(5).fill('again'), response: ['once'] });

    // It is a stream of the connection that brought the page: there is no other, and nothing else is open on it.
    await counts({ handshakes: start.handshakes, open: 1, sessions: start.sessions + 1, requests: 0 });

    // A topic: as many as are asked for, in order; the newest of those that come meanwhile waits; nothing after CANCEL.
    const heard = await page.evaluate(async (topic) => {
      let next = 7;
      const publish = (data) => peer.respond((next += 2), topic, data);
      peer.ask(5, topic, '', 20);
      for (let n = 0; n < 20; n++) await publish(String(n));
      await peer.arrived(5, 20);
      for (const data of ['passed over', 'passed over', 'newest']) await publish(data);
      peer.more(5, 1);
      await peer.arrived(5, 21);
      peer.more(5, 2 ** 31 - 1);
      peer.cancel(5);
      await publish('too late');
      return peer.items[5];
    }, topic);
    assert.deepEqual(heard, [...Array.from({ length: 20 }, (_, n) => String(n)), 'newest']);

    assert.equal(await page.evaluate(() => peer.close()), 1000);
    await counts({ handshakes: start.handshakes, open: 0, sessions: start.sessions + 1 });
  });

  test('REST and events beside an RSocket connection', async () => {
    const start = await counts({ open: 0 });
    const topic = unique('topic');
    const path = `/topics/${topic}`;
    const events = `/events?topic=${topic}&access_token=${TOKEN}`;
    const urls = { socket: `${origin('wss')}/rsocket`, path, events };

    const found = await page.evaluate(
      async ({ urls, topic, token }) => {
        const headers = { Authorization: `Bearer ${token}` };
        const peer = (globalThis.peer = await RSocketInPage.open(urls.socket, token));
        const source = (globalThis.source = new EventSource(urls.events));
        const heard = [];
        const ready = new Promise((resolve) => source.addEventListener('ready', resolve));
        const both = new Promise((resolve) => {
          source.onmessage = ({ data }) => heard.push(data) === 2 && resolve();
        });
        await ready;
        peer.ask(1, topic, '', 10);
        const put = await fetch(urls.path, { method: 'PUT', headers, body: 'by REST' });
        await put.text();
        await peer.arrived(1, 1);
        await peer.respond(3, topic, 'by RSocket');
        await peer.arrived(1, 2);
        await both;
        const value = await (await fetch(urls.path, { headers })).text();
        return { put: put.status, value, heard, items: peer.items[1] };
      },
      { urls, topic, token: TOKEN },
    );
    const both = ['by REST', 'by RSocket'];
    assert.deepEqual(found, { put: 200, value: 'by REST', heard: both, items: both });
    assert.deepEqual(await protocols(path, 2), ['h2', 'h2']);

    // The WebSocket and the events are open, still on one connection.
    await counts({ handshakes: start.handshakes, open: 2, sessions: start.sessions + 1 });
    await page.evaluate(() => source.close());
    await counts({ open: 1 });
    await page.evaluate(() => peer.close());
    await counts({ open: 0 });
  });
});
