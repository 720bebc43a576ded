// A Socket.IO server as its documentation would write it: clients join rooms, the server emits to them.
// Usage: node server.js [port] [topics] [bytes]
"use strict";

const { createServer } = require("node:http");
const { Server } = require("socket.io");

const [port, topics, bytes] = [3000, 1, 1024].map((usual, at) => Number(process.argv[2 + at] ?? usual));
const filling = ".".repeat(Math.max(0, bytes - 16));
const http = createServer();
const io = new Server(http, { transports: ["polling", "websocket"] });

let rate = 0; // messages per second; Infinity for as many as possible
let begun = 0n;
let taken = 0;
let turn = 0;

io.on("connection", (socket) => {
  socket.on("subscribe", (topic, answer) => {
    socket.join(topic);
    answer?.({ ok: true });
  });
  socket.on("control", (word) => {
    rate = word === "max" ? Infinity : word === "stop" ? 0 : Number(word);
    [begun, taken] = [process.hrtime.bigint(), 0];
  });
});

// Nanoseconds since 1970, by the clock that does not jump.
const start = BigInt(Date.now()) * 1_000_000n - process.hrtime.bigint();

function publish(due) {
  const topic = `bench/${turn++ % topics}`;
  const stamp = (start + due).toString(16).padStart(16, "0");
  io.to(topic).emit("message", topic, stamp + filling);
  return io.of("/").adapter.rooms.get(topic)?.size ?? 0;
}

// Whether sockets still hold what was emitted before: without looking, flat out would be out of memory.
function isBehind() {
  let waiting = 0;
  for (const [, socket] of io.of("/").sockets) {
    waiting += socket.conn.writeBuffer.length;
    if (waiting > 4 * io.engine.clientsCount) return true;
  }
  return false;
}

function tick() {
  const now = process.hrtime.bigint();
  if (rate === Infinity) {
    // The look at all sockets is made once for four messages to each.
    let wanted = isBehind() ? 0 : 4 * io.engine.clientsCount;
    while (wanted > 0) wanted -= Math.max(1, publish(now));
    return setImmediate(tick);
  }
  const due = () => begun + BigInt(Math.floor((taken * 1e9) / rate));
  while (rate > 0 && due() <= now) {
    publish(due());
    taken++;
  }
  setTimeout(tick, 1);
}

http.listen(port, "127.0.0.1", () => {
  console.log(`socket.io on 127.0.0.1:${port}`);
  tick();
});
