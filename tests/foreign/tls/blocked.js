// Connections of one client, whose address is given, by HTTP/1.1 and HTTP/2 over TLS and HTTP/2 without: says as lines of JSON
// what each is answered, once more for each line that it reads, and what new ones of the same kinds are answered then.
'use strict';

const http2 = require('node:http2');
const https = require('node:https');
const net = require('node:net');
const readline = require('node:readline');
const tls = require('node:tls');

const [port, localAddress] = [Number(process.argv[2]), process.argv[3]];
const secured = () => tls.connect({ host: '127.0.0.1', port, localAddress, servername: 'localhost', ALPNProtocols: ['h2'] });
const plain = () => net.connect({ host: '127.0.0.1', port, localAddress });

// Each gives what asks on the same connection again.
const KINDS = {
  https() {
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
    return () =>
      new Promise((resolve, reject) => {
        https
          .get({ host: '127.0.0.1', servername: 'localhost', port, path: '/livez', agent, localAddress }, (answer) => {
            answer.resume().on('end', () => resolve(answer.statusCode));
          })
          .on('error', reject);
      });
  },
  h2: () => overHttp2(`https://localhost:${port}`, secured),
  h2c: () => overHttp2(`http://localhost:${port}`, plain),
};

function overHttp2(authority, createConnection) {
  const session = http2.connect(authority, { createConnection });
  const failed = new Promise((_, reject) => session.on('error', reject).on('close', () => reject(new Error('closed'))));
  failed.catch(() => {});
  const ask = () =>
    new Promise((resolve, reject) => {
      const stream = session.request({ ':path': '/livez' });
      stream.on('response', (fields) => resolve(fields[':status'])).on('error', reject).on('close', () => reject(new Error('closed')));
      stream.resume();
    });
  return () => Promise.race([ask(), failed]);
}

async function said(asks) {
  const answers = {};
  for (const [kind, ask] of Object.entries(asks)) {
    answers[kind] = await ask().catch(() => 'closed');
  }
  return answers;
}

async function main() {
  const fresh = () => Object.fromEntries(Object.entries(KINDS).map(([kind, open]) => [kind, open()]));
  const held = fresh();
  console.log(JSON.stringify(await said(held)));
  for await (const _ of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify({ held: await said(held), fresh: await said(fresh()) }));
  }
  process.exit(0);
}

main();
