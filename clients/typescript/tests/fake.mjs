// A server that does what a test tells it, byte by byte: WebSocket at /tiderace, Engine.IO long polling at
// /engine.io/. Everything can be called with JSON and answers with JSON, so that tests in a page can use it too.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

const servers = new Map();
let count = 0;

/**
 * Begins a server; options: `refuse` lists transports that are turned away, `maxPayload` of polling, `deaf` leaves
 * what is posted unanswered.
 */
export async function create(options = {}) {
  const server = new Fake(options);
  server.http.listen(0, "127.0.0.1");
  await once(server.http, "listening");
  servers.set(++count, server);
  return { id: count, url: `http://127.0.0.1:${server.http.address().port}` };
}

export const next = (id) => servers.get(id).next();
export const send = (id, link, hex) => servers.get(id).links.get(link)?.send(Buffer.from(hex, "hex"));
export const text = (id, link, packet) => servers.get(id).links.get(link)?.packet?.(packet);
export const cut = (id, link) => servers.get(id).links.get(link)?.cut();
export const configure = (id, options) => void Object.assign(servers.get(id).options, options);

export async function destroy(id) {
  const server = servers.get(id);
  servers.delete(id);
  for (const link of server.links.values()) link.cut();
  server.http.closeAllConnections();
  server.http.close();
}

class Fake {
  links = new Map();
  events = [];
  takers = [];
  lastLink = 0;

  constructor(options) {
    this.options = { refuse: [], maxPayload: 1_000_000, ...options };
    this.sockets = new WebSocketServer({ noServer: true, handleProtocols: () => "tiderace.v1" });
    this.http = createServer((request, response) => void this.answer(request, response));
    this.http.on("upgrade", (request, socket, head) => {
      if (this.options.refuse.includes("websocket") || !request.url.startsWith("/tiderace")) return socket.destroy();
      this.sockets.handleUpgrade(request, socket, head, (socket) => this.socket(socket));
    });
  }

  tell(event) {
    const taker = this.takers.shift();
    if (taker) taker(event);
    else this.events.push(event);
  }

  next() {
    const event = this.events.shift();
    return event ? Promise.resolve(event) : new Promise((resolve) => this.takers.push(resolve));
  }

  socket(socket) {
    const link = ++this.lastLink;
    this.links.set(link, {
      send: (bytes) => socket.send(bytes),
      cut: () => socket.terminate(),
    });
    this.tell({ kind: "open", link, transport: "websocket" });
    socket.on("message", (bytes) => this.tell({ kind: "message", link, hex: bytes.toString("hex") }));
    socket.on("close", () => this.closed(link));
    socket.on("error", () => {});
  }

  closed(link) {
    if (this.links.delete(link)) this.tell({ kind: "closed", link });
  }

  async answer(request, response) {
    const url = new URL(request.url, "http://fake");
    const headers = { "Access-Control-Allow-Origin": "*", "Content-Type": "text/plain; charset=UTF-8" };
    const finish = (status, body) => response.writeHead(status, headers).end(body);
    if (url.pathname === "/") {
      response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>suite</title>");
      return;
    }
    if (url.pathname !== "/engine.io/" || this.options.refuse.includes("polling")) return finish(404, "nothing here");
    if (this.options.denied) return finish(...this.options.denied);
    const sid = url.searchParams.get("sid");
    if (!sid) return this.openPolling(finish);
    const polling = [...this.links.values()].find((known) => known.sid === sid);
    if (!polling) return finish(400, '{"code":1,"message":"Session ID unknown"}');
    if (request.method === "POST") {
      let body = "";
      for await (const piece of request) body += piece;
      // A request that never arrives, on a connection that seems to live.
      if (this.options.deaf) return;
      polling.take(body);
      return finish(200, "ok");
    }
    response.on("close", () => {
      if (!response.writableEnded) polling.cut();
    });
    polling.hold(finish);
  }

  openPolling(finish) {
    const link = ++this.lastLink;
    const sid = randomBytes(8).toString("hex");
    const { maxPayload } = this.options;
    let packets = [];
    let held;
    const flush = () => {
      if (!held || !packets.length) return;
      const answer = held;
      held = undefined;
      answer(200, packets.join("\x1e"));
      packets = [];
    };
    const packet = (text) => {
      packets.push(text);
      flush();
    };
    this.links.set(link, {
      sid,
      packet,
      send: (bytes) => packet("b" + bytes.toString("base64")),
      hold: (finish) => {
        held = finish;
        flush();
      },
      take: (body) => {
        if (body.length > maxPayload) this.tell({ kind: "too large", link });
        for (const packet of body.split("\x1e")) {
          const bytes = Buffer.from(packet.slice(1), "base64");
          if (packet[0] === "b") this.tell({ kind: "message", link, hex: bytes.toString("hex") });
          else if (packet === "1") this.closed(link);
          else this.tell({ kind: "packet", link, text: packet });
        }
      },
      cut: () => {
        held?.(400, "gone");
        held = undefined;
        this.closed(link);
      },
    });
    this.tell({ kind: "open", link, transport: "polling" });
    const handshake = { sid, upgrades: [], pingInterval: 25000, pingTimeout: 20000, maxPayload };
    finish(200, "0" + JSON.stringify(handshake));
  }
}
