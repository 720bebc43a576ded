// Runs in a page of a browser, before anything else does: an RSocket client as small as can be, over the page's own
// WebSocket, whose frames are made by hand. It is left in `globalThis.RSocketInPage`.

globalThis.RSocketInPage = class RSocketInPage {
  static #SETUP = 1;
  static #RESPONSE = 4;
  static #STREAM = 6;
  static #REQUEST_N = 8;
  static #CANCEL = 9;
  static #PAYLOAD = 10;
  static #ERROR = 11;
  static #METADATA = 0x100;
  static #COMPLETE = 0x40;
  static #NEXT = 0x20;
  static #BEARER = 0x81;
  static #AUTHENTICATION = 0xfc;
  static #ROUTING = 0xfe;

  /** Items by stream, and how often each stream ended. */
  items = {};
  ended = {};
  #socket;
  #changed = () => {};
  #failed;

  /** Opens the WebSocket and says SETUP, which has no answer if it is good. */
  static async open(url, token) {
    const peer = new this();
    const socket = new WebSocket(url);
    peer.#socket = socket;
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({ data }) => peer.#take(data);
    socket.onopen = () => peer.#changed();
    socket.onclose = ({ code, reason }) => peer.#fail(`closed by ${code} ${reason}`);
    await peer.until('opening', () => socket.readyState === WebSocket.OPEN);
    const composite = 'message/x.rsocket.composite-metadata.v0';
    const versions = [...this.#number(1, 2), ...this.#number(0, 2)];
    const times = [...this.#number(10_000, 4), ...this.#number(60_000, 4)];
    const login = this.#entry(this.#AUTHENTICATION, [this.#BEARER, ...this.#text(token)]);
    const types = [...this.#named(composite), ...this.#named('text/plain')];
    peer.#send(0, this.#SETUP, this.#METADATA, [...versions, ...times, ...types, ...this.#described(login, '')]);
    return peer;
  }

  /** Waits until that is so; it is looked at whenever something has arrived. */
  until(what, holds) {
    return new Promise((resolve, reject) => {
      const late = () => this.#fail(`no ${what}; there is ${JSON.stringify([this.items, this.ended])}`);
      const timer = setTimeout(late, 8_000);
      this.#changed = () => {
        if (!holds() && !this.#failed) return;
        clearTimeout(timer);
        this.#changed = () => {};
        if (holds()) resolve();
        else reject(this.#failed);
      };
      this.#changed();
    });
  }

  /** Asks for a response, or, with a demand, for a stream. */
  ask(stream, route, data, demand) {
    const path = RSocketInPage.#entry(RSocketInPage.#ROUTING, RSocketInPage.#named(route));
    const kind = demand === undefined ? RSocketInPage.#RESPONSE : RSocketInPage.#STREAM;
    const head = demand === undefined ? [] : RSocketInPage.#number(demand, 4);
    this.items[stream] = [];
    this.#send(stream, kind, RSocketInPage.#METADATA, [...head, ...RSocketInPage.#described(path, data)]);
  }

  /** A response: its items, of which there is one or none. */
  async respond(stream, route, data) {
    this.ask(stream, route, data);
    await this.until(`response on ${stream}`, () => this.ended[stream]);
    return this.items[stream];
  }

  more(stream, demand) {
    this.#send(stream, RSocketInPage.#REQUEST_N, 0, RSocketInPage.#number(demand, 4));
  }

  cancel(stream) {
    this.#send(stream, RSocketInPage.#CANCEL, 0, []);
  }

  arrived(stream, count) {
    return this.until(`${count} items on ${stream}`, () => this.items[stream].length >= count);
  }

  /** Ends the WebSocket; the code of its end. */
  close() {
    const closed = new Promise((resolve) => (this.#socket.onclose = ({ code }) => resolve(code)));
    this.#socket.close(1000);
    return closed;
  }

  #fail(text) {
    this.#failed ??= new Error(text);
    this.#changed();
  }

  #take(data) {
    const view = new DataView(data);
    const [stream, head] = [view.getUint32(0), view.getUint16(4)];
    const [kind, flags] = [head >> 10, head & 0x3ff];
    const rest = flags & RSocketInPage.#METADATA ? 9 + (view.getUint32(5) & 0xffffff) : 6;
    const text = (from) => new TextDecoder().decode(data.slice(from));
    if (kind === RSocketInPage.#PAYLOAD) {
      if (flags & RSocketInPage.#NEXT) this.items[stream].push(text(rest));
      if (flags & RSocketInPage.#COMPLETE) this.ended[stream] = (this.ended[stream] ?? 0) + 1;
    }
    if (kind === RSocketInPage.#ERROR) this.#fail(`stream ${stream}: ${text(10)}`);
    this.#changed();
  }

  #send(stream, kind, flags, rest) {
    const head = [...RSocketInPage.#number(stream, 4), ...RSocketInPage.#number(kind * 1024 + flags, 2)];
    this.#socket.send(Uint8Array.from([...head, ...rest]));
  }

  static #text(value) {
    return new TextEncoder().encode(value);
  }
  static #number(value, size) {
    return Array.from({ length: size }, (_, n) => Math.floor(value / 2 ** (8 * (size - 1 - n))) % 256);
  }
  static #named(value) {
    const bytes = this.#text(value);
    return [bytes.length, ...bytes];
  }
  static #entry(id, content) {
    return [id, ...this.#number(content.length, 3), ...content];
  }
  static #described(metadata, data) {
    return [...this.#number(metadata.length, 3), ...metadata, ...this.#text(data)];
  }
};
