// Node's own TLS and HTTPS against the server on the port that is given; says as JSON what came.
'use strict';

const http2 = require('node:http2');
const https = require('node:https');
const tls = require('node:tls');

const port = Number(process.argv[2]);
const shown = {};

function live() {
  return new Promise((resolve, reject) => {
    https
      .get({ host: 'localhost', port, path: '/livez' }, (answer) => {
        answer.setEncoding('utf8');
        answer.on('data', (text) => {
          shown.live = (shown.live ?? '') + text;
        });
        answer.on('end', resolve);
      })
      .on('error', reject);
  });
}

function livez2() {
  return new Promise((resolve, reject) => {
    const session = http2.connect(`https://localhost:${port}`);
    session.on('error', reject);
    const stream = session.request({ ':path': '/livez' });
    stream.setEncoding('utf8');
    stream.on('data', (text) => {
      shown.http2 = `${session.alpnProtocol} ${text}`;
    });
    stream.on('end', () => session.close(resolve));
  });
}

function stomp() {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host: 'localhost', port, servername: 'localhost' }, () => {
      shown.protocol = socket.getProtocol();
      socket.write('CONNECT\naccept-version:1.2\nhost:localhost\n\n\0');
    });
    socket.setEncoding('utf8');
    socket.once('data', (text) => {
      shown.stomp = text.split('\n')[0];
      socket.end(resolve);
    });
    socket.on('error', reject);
  });
}

async function events() {
  const base = `https://localhost:${port}`;
  const abort = new AbortController();
  const stream = await fetch(`${base}/events?topic=node/tls`, { signal: abort.signal });
  await fetch(`${base}/topics/node/tls`, { method: 'POST', body: '7', headers: { 'Content-Type': 'application/json' } });
  let text = '';
  for await (const piece of stream.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    const data = /^data: ?(7)$/m.exec(text);
    if (data) {
      shown.event = data[1];
      break;
    }
  }
  abort.abort();
}

live()
  .then(livez2)
  .then(stomp)
  .then(events)
  .then(() => {
    console.log(JSON.stringify(shown));
    process.exit(0);
  })
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
