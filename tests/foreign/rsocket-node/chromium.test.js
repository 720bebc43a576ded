// A browser speaks RSocket through a WebSocket that is a stream of HTTP/2 (RFC 8441), over TLS.
//
// Browsers do so only on a connection that is there already, whose server offers it: first the page comes by HTTP/2, then
// the WebSocket beside it. TIDERACE_TLS names the port; CHROMIUM the browser (default /usr/bin/chromium).

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { BASE, TOKEN, unique } from './peer.js';

const TLS = process.env.TIDERACE_TLS;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
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
const left = !TLS ? 'no listener with TLS' : !existsSync(CHROMIUM) ? `no ${CHROMIUM}` : false;
if (left && process.env.CI === 'true') throw new Error(`cannot be left out: ${left}`);

/** Runs in the page: an RSocket client as small as can be, whose frames are made by hand. */
async function converse({ url, token, topic, count }) {
  const text = new TextEncoder();
  const join = (...parts) => {
    const bytes = parts.map((part) => (typeof part === 'string' ? text.encode(part) : Uint8Array.from(part)));
    const whole = new Uint8Array(bytes.reduce((sum, part) => sum + part.length, 0));
    bytes.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
    return whole;
  };
  const number = (value, size) => Array.from({ length: size }, (_, n) => Math.floor(value / 2 ** (8 * (size - 1 - n))) % 256);
  const frame = (stream, kind, flags, ...rest) => join(number(stream, 4), number(kind * 1024 + flags, 2), ...rest);
  const counted = (value, size) => join(number(text.encode(value).length, size), value);
  const entry = (id, content) => join([0x80 + id], number(content.length, 3), content);
  const described = (metadata, data) => join(number(metadata.length, 3), metadata, data);
  const setup = frame(
    0, 1, 0x100, number(1, 2), number(0, 2), number(10_000, 4), number(60_000, 4),
    counted('message/x.rsocket.composite-metadata.v0', 1), counted('text/plain', 1),
    described(entry(0x7c, join([0x81], token)), ''),
  );
  const ask = (stream, kind, path, data, ...demand) => frame(stream, kind, 0x100, ...demand, described(entry(0x7e, counted(path, 1)), data));
  const socket = new WebSocket(url);
  socket.binaryType = 'arraybuffer';
  const found = [];
  const done = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`only ${JSON.stringify(found)}`)), 10_000);
    socket.onerror = () => reject(new Error('the WebSocket failed'));
    socket.onclose = ({ code }) => reject(new Error(`closed by ${code}`));
    socket.onmessage = ({ data }) => {
      const view = new DataView(data);
      const [stream, kind] = [view.getUint32(0), view.getUint16(4) >> 10];
      if (kind !== 10) return;
      if (stream === 1) found.push(new TextDecoder().decode(data.slice(6)));
      if (found.length === count) resolve();
    };
  });
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    done.catch(reject);
  });
  socket.send(setup);
  socket.send(ask(1, 6, topic, '', number(2 ** 31 - 1, 4)));
  for (let n = 0; n < count; n++) socket.send(ask(2 * n + 3, 5, topic, String(n)));
  await done;
  socket.onclose = null;
  socket.close();
  const [page] = performance.getEntriesByType('navigation');
  return { found, protocol: page.nextHopProtocol };
}

describe('Chromium over TLS', { skip: left }, () => {
  let browser;
  before(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, headless: true, args: FLAGS });
  });
  after(() => browser?.close());

  const tunnels = async () => {
    const text = await (await fetch(`${BASE}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } })).text();
    return Number(/^tiderace_http2_websockets_total(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1] ?? 0);
  };

  test('RSocket by a WebSocket over HTTP/2', async () => {
    const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
    const before = await tunnels();
    await page.goto(`https://${TLS}/livez`);
    const url = `wss://${TLS}/rsocket`;
    const { found, protocol } = await page.evaluate(converse, { url, token: TOKEN, topic: unique('topic'), count: 20 });
    assert.deepEqual(found, Array.from({ length: 20 }, (_, n) => String(n)));
    assert.equal(protocol, 'h2');
    assert.ok((await tunnels()) > before, 'the WebSocket was not a stream of HTTP/2');
  });
});
