/** The server's side of a test: says and expects messages of docs/protocol.md through the fake server. */
import { Reader, Writer } from "../src/bytes.js";
import * as m from "../src/messages.js";
import { connect, type Client } from "../src/index.js";
import type { ConnectOptions } from "../src/options.js";
import { type FakeEvent, type Place, equal, hex, unhex } from "./harness.js";

export const SECOND = 1000;
const names = new Map(
  Object.entries(m)
    .filter(([name]) => /^(HELLO|LOGIN|SUBSCRIBE|UNSUBSCRIBE|DECLARE|PUBLISH|SETTLE|CALL|SEND|CANCEL|CREDIT|PING|BYE|OPERATE)$/.test(name))
    .map(([name, type]) => [type as number, name]),
);

export interface Said {
  name: string;
  input: Reader;
  hex: string;
}

export interface WelcomeFields {
  epoch?: number;
  ping?: number;
  jitter?: number;
  subscriptions?: number;
  declarations?: number;
  features?: number;
}

export class Peer {
  link = 0;
  transport = "";
  private said: Said[] = [];

  private constructor(
    private readonly place: Place,
    readonly id: number,
    readonly url: string,
  ) {}

  static async begin(place: Place, after: (task: () => unknown) => void, options: object = {}): Promise<Peer> {
    const { id, url } = await place.fakes.create(options);
    after(() => place.fakes.destroy(id));
    return new Peer(place, id, url);
  }

  /** A client of this server, and of others, that connects again without waiting. */
  client(after: (task: () => unknown) => void, options: ConnectOptions = {}, ...others: Peer[]): Client {
    const urls = [this.url, ...others.map(({ url }) => url)];
    const client = connect(others.length ? urls : this.url, { reconnect: { base: 1, max: 1 }, window: 0, ...options });
    after(() => client.close());
    return client;
  }

  async event(kind: FakeEvent["kind"]): Promise<FakeEvent> {
    for (;;) {
      const event = await this.place.fakes.next(this.id);
      if (event.kind === kind) return event;
      if (event.kind === "message" && event.link === this.link) this.take(event.hex!);
    }
  }

  /** The client has connected anew; what it said before is forgotten. */
  async opened(): Promise<void> {
    const event = await this.event("open");
    this.said = [];
    this.link = event.link;
    this.transport = event.transport!;
  }

  /** The next message, which is of that name. */
  async hears(name: string): Promise<Said> {
    while (!this.said.length) {
      const event = await this.place.fakes.next(this.id);
      if (event.kind === "message" && event.link === this.link) this.take(event.hex!);
    }
    const said = this.said.shift()!;
    equal(said.name, name, "message");
    return said;
  }

  /** Connection, HELLO and WELCOME. */
  async welcomes(fields: WelcomeFields = {}): Promise<Said> {
    await this.opened();
    const hello = await this.hears("HELLO");
    const { epoch = 5, ping = 0, jitter = 1, subscriptions = 1000, declarations = 10, features = 0 } = fields;
    const out = new Writer().varint(1).varint(0).string("ann").bytes(new Writer().varint(epoch).done());
    out.varint(ping).varint(1_000_000).varint(subscriptions).varint(declarations).varint(jitter);
    out.varint(1).varint(1).string("fake");
    await this.says(m.WELCOME, features ? out.varint(features) : out);
    return hello;
  }

  says(type: number, payload: Writer): Promise<void> {
    return this.bytes(hex(new Writer().u8(type).varint(payload.length).raw(payload.done()).done()));
  }

  bytes(text: string): Promise<void> {
    return this.place.fakes.send(this.id, this.link, text);
  }

  ok(request: number, more = 0): Promise<void> {
    return this.says(m.OK, new Writer().varint(request).varint(more));
  }

  /** An update with its whole version. */
  update(id: number, version: number, body: string, flags = 1): Promise<void> {
    return this.says(m.UPDATES, entry(id, version, body, flags));
  }

  cut(): Promise<void> {
    return this.place.fakes.cut(this.id, this.link);
  }

  error(type: number, before: Writer, number: number, code: string): Promise<void> {
    return this.says(type, before.varint(number).string(code).string(`because of ${code}`));
  }

  /** A goodbye; with addresses to go to, if there are. */
  close(number: number, code: string, again: number, elsewhere: string[] = []): Promise<void> {
    const out = new Writer().varint(number).string(code).string("so").u8(again).varint(1);
    if (elsewhere.length) out.varint(elsewhere.length);
    for (const address of elsewhere) out.string(address);
    return this.says(m.CLOSE, out);
  }

  /** Whether it takes connections. */
  takes(is: boolean): Promise<void> {
    return this.place.fakes.configure(this.id, { refuse: is ? [] : ["websocket", "polling"] });
  }

  private take(text: string): void {
    const input = new Reader(unhex(text));
    while (!input.empty) {
      const start = input.at;
      const name = names.get(input.u8()) ?? "unknown";
      const payload = new Reader(input.bytes());
      this.said.push({ name, input: payload, hex: hex(input.block.slice(start, input.at)) });
    }
  }
}

export function entry(id: number, version: number, body: string | Uint8Array, flags = 1): Writer {
  const out = new Writer().u8(flags | m.FULL_VERSION).varint(id).varint(version);
  return typeof body === "string" ? out.string(body) : out.bytes(body);
}

/** The fields of a SUBSCRIBE. */
export function subscribed({ input }: Said): { request: number; id: number; flags: number; kind: number; path: string } {
  return {
    request: input.varint(),
    id: input.varint(),
    flags: input.varint(),
    kind: input.u8(),
    path: input.string(),
  };
}
