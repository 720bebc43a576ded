/**
 * Engine.IO 4 long polling at `/engine.io/`, by fetch: one request is held by the server until there
 * is something to say, another carries what is to be sent. Messages are binary packets, `b` and base64.
 */
import { text } from "../bytes.js";
import { asError, TideraceError } from "../error.js";
import type { Platform, Transport, TransportEvents } from "./transport.js";

const SEPARATOR = "\x1e";

export function openPolling(base: URL, platform: Platform, events: TransportEvents): Transport {
  const polling = new Polling(base, platform, events);
  void polling.run();
  return polling;
}

class Polling implements Transport {
  buffered = 0;
  private readonly url: URL;
  private readonly abort = new AbortController();
  private payloadMax = 0;
  private packets: string[] = [];
  private posting = false;
  private closing = false;
  private over = false;

  constructor(
    base: URL,
    private readonly platform: Platform,
    private readonly events: TransportEvents,
  ) {
    this.url = new URL("engine.io/", base);
    this.url.protocol = base.protocol.replace("ws", "http");
    this.url.search = "?EIO=4&transport=polling";
  }

  /** The requests that the server holds, one after the other. */
  async run(): Promise<void> {
    try {
      await this.handshake();
      while (!this.over && !this.closing) {
        for (const packet of (await this.request("GET")).split(SEPARATOR)) this.take(packet);
      }
    } catch (thrown) {
      this.end(asError(thrown));
    }
  }

  send(message: Uint8Array): void {
    this.buffered += message.length;
    this.packets.push("b" + toBase64(message));
    void this.post();
  }

  close(): void {
    if (this.closing) return;
    this.closing = true;
    this.packets.push("1");
    void this.post();
  }

  cut(): void {
    this.over = true;
    this.abort.abort();
  }

  private end(reason: string | Error): void {
    if (this.over) return;
    this.cut();
    if (reason instanceof TideraceError) this.events.closed(reason.message, reason);
    else this.events.closed(asError(reason).message);
  }

  private async handshake(): Promise<void> {
    const packet = await this.request("GET");
    if (packet[0] !== "0") throw new Error("no Engine.IO handshake");
    const { sid, maxPayload } = JSON.parse(packet.slice(1)) as { sid: string; maxPayload?: number };
    this.url.searchParams.set("sid", sid);
    this.payloadMax = maxPayload || 1_000_000;
    if (this.over) return;
    this.events.opened();
    void this.post();
  }

  private take(packet: string): void {
    if (this.over) return;
    switch (packet[0]) {
      case "b":
        return this.events.received(fromBase64(packet.slice(1)), packet.length);
      case "2":
        this.packets.push("3" + packet.slice(1));
        return void this.post();
      case "1":
        return this.end("the server closed the session");
      // 6 does nothing; text and what is unknown does not concern us.
    }
  }

  /** Sends what there is, as much at once as the server takes. */
  private async post(): Promise<void> {
    if (this.posting || !this.payloadMax) return;
    this.posting = true;
    try {
      // What is sent in one go leaves in one go: a farewell and the end behind it, above all.
      await Promise.resolve();
      while (this.packets.length && !this.over) {
        let body = this.packets.shift()!;
        while (this.packets.length && body.length + 1 + this.packets[0]!.length <= this.payloadMax) {
          body += SEPARATOR + this.packets.shift()!;
        }
        // The held request may be on a connection that works, and this one on another that does not.
        const late = setTimeout(() => this.end("a request was not answered"), this.platform.requestMs);
        await this.request("POST", body).finally(() => clearTimeout(late));
        if (!this.packets.length) this.buffered = 0;
      }
      if (this.closing) this.end("closed");
    } catch (thrown) {
      this.end(asError(thrown));
    }
    this.posting = false;
  }

  private async request(method: "GET" | "POST", body?: string): Promise<string> {
    const { fetch } = this.platform;
    const answer = await fetch(this.url, {
      method,
      // The default type of a text needs no permission asked beforehand across origins.
      ...(body === undefined ? {} : { body }),
      cache: "no-store",
      signal: this.abort.signal,
      // Lets the farewell out of a page that is being left.
      keepalive: this.closing && method === "POST",
    });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    if (!answer.ok) throw refusal(answer.status, text(bytes));
    return text(bytes);
  }
}

/** Pages of an origin, or of a host's name, that are not let in (403, 421) are not let in later either; all else may pass. */
function refusal(status: number, said: string): Error {
  if (status === 403 || status === 421) {
    try {
      const { code, message } = JSON.parse(said) as { code: unknown; message: unknown };
      if (typeof code === "string") return new TideraceError(code, String(message));
    } catch {
      // Something between here and the server says so.
    }
  }
  return new Error(`HTTP status ${status}: ${said.slice(0, 200)}`);
}

type Base64 = typeof Uint8Array & { fromBase64?: (text: string) => Uint8Array };

export function fromBase64(encoded: string): Uint8Array {
  const known = (Uint8Array as Base64).fromBase64;
  if (known) return known.call(Uint8Array, encoded);
  const binary = atob(encoded);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(binary);
}
