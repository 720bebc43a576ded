/**
 * All interests of a client by their ids: subscribes them on each new connection and leads to them
 * what arrives. Invariant: an id is used again only when the server has let go of it.
 */
import { malformed, Reader, utf8, Writer } from "./bytes.js";
import { TideraceError } from "./error.js";
import type { Interest } from "./interest.js";
import { type Link, readError } from "./link.js";
import * as m from "./messages.js";

interface Place {
  interest: Interest;
  /** The application is through with it; the id waits for the server's answer. */
  ended: boolean;
}

export class Hub {
  private readonly places: (Place | undefined)[] = [];
  /** By topic id: whose, and which path. Of the present connection. */
  private topics: ({ place: Place; path: string } | undefined)[] = [];
  private recovering = new Map<number, Interest>();
  private link: Link | undefined;
  /** The life of the server that is connected, or was last. */
  private epoch: string | undefined;
  /** The same, if the position that it was told is not of it. */
  private another: string | undefined;

  constructor(private readonly refused: (error: TideraceError) => void) {}

  add(interest: Interest): void {
    interest.of ??= this.epoch;
    let id = this.places.findIndex((place) => !place);
    if (id < 0) id = this.places.length;
    this.places[id] = { interest, ended: false };
    this.subscribe(id);
  }

  /** Done when the server has let go of it. */
  async remove(interest: Interest): Promise<void> {
    const id = this.idOf(interest);
    const place = this.places[id];
    if (!place || place.ended) return;
    place.ended = true;
    try {
      await this.link?.request(m.UNSUBSCRIBE, (request) => new Writer().varint(request).varint(id));
    } catch {
      // The connection is gone, and the subscription with it.
    }
    if (this.places[id] === place) this.places[id] = undefined;
  }

  idOf(interest: Interest): number {
    return this.places.findIndex((place) => place?.interest === interest && !place.ended);
  }

  /** A connection to a server, in the life `epoch`, that was told a position of the life `position`. */
  up(link: Link, epoch: string, position: string): void {
    this.link = link;
    this.epoch = epoch;
    this.another = epoch === position ? undefined : epoch;
    this.places.forEach((place, id) => {
      if (!place || place.ended) return;
      const { interest } = place;
      if (interest.of !== epoch) {
        // What is recoverable is asked for, from the position on: the server may know the life that it is of.
        const known = interest.of === position ? interest.confirmed : interest.recall?.();
        if (known && interest.wish.flags & m.RECOVERABLE) {
          interest.of = position;
          interest.confirmed = true;
        } else {
          interest.of = epoch;
          interest.restarted();
          interest.confirmed = false;
        }
      }
      this.subscribe(id);
    });
  }

  down(): void {
    this.link = undefined;
    this.topics = [];
    this.recovering.clear();
    this.places.forEach((place, id) => {
      if (place?.ended) this.places[id] = undefined;
      else place?.interest.lost();
    });
  }

  /** The position is of this life of the server from now on, and so are all versions. */
  positioned(): void {
    for (const place of this.places) {
      if (!place) continue;
      place.interest.of = this.epoch;
      place.interest.recallable = undefined;
    }
  }

  /** Nothing will come any more. */
  close(error: TideraceError): void {
    for (const place of this.places.splice(0)) if (place && !place.ended) place.interest.failed(error);
  }

  /** Takes a message, if it is about interests. */
  message(type: number, input: Reader): void {
    switch (type) {
      case m.TOPIC: {
        const id = input.varint();
        const place = this.places[input.varint()];
        if (!place) throw malformed();
        this.topics[id] = { place, path: input.string() };
        return;
      }
      case m.UPDATES:
        while (!input.empty) this.update(input);
        return;
      case m.QUEUED: {
        const { place, path } = this.find(input.u8() & m.ANNOUNCED, input.varint());
        if (!place.ended) place.interest.queued(path, input);
        return;
      }
      case m.JOINED:
      case m.LEFT: {
        const place = this.places[input.varint()];
        if (!place?.ended) place?.interest.noticed?.(type === m.JOINED, input.string(), input.string());
        return;
      }
      case m.BROWSED: {
        const place = this.places[input.varint()];
        if (!place?.ended) place?.interest.browsed?.();
        return;
      }
      case m.UNSUBSCRIBED: {
        const id = input.varint();
        const place = this.places[id];
        // One that the application is through with has its id until its UNSUBSCRIBE is answered.
        if (!place || place.ended) return;
        this.places[id] = undefined;
        return this.over(place, readError(input));
      }
      case m.FOLLOWS: {
        const { place, path } = this.find(input.u8() & m.ANNOUNCED, input.varint());
        if (!place.ended) place.interest.follows?.(path, input.varint());
        return;
      }
      case m.RECOVERED: {
        const interest = this.recovering.get(input.varint());
        const complete = input.u8() === 1;
        interest?.recovered(complete, !input.empty && input.u8() === 1, this.another, this.tellsValues);
        return;
      }
    }
  }

  /** Whose subscription or topic id that is; one that nobody knows would be a loss nobody notices. */
  find(announced: number, id: number): { place: Place; path?: string } {
    const place = this.places[id];
    const found = announced ? this.topics[id] : place && { place };
    if (!found) throw malformed();
    return found;
  }

  /** The server would not have it, or not any more. */
  private over(place: Place, error: TideraceError): void {
    place.ended = true;
    place.interest.failed(error);
    this.refused(error);
  }

  private get tellsValues(): boolean {
    return !!(this.link!.welcome!.features & m.CAN_TELL_VALUES);
  }

  private update(input: Reader): void {
    const flags = input.u8();
    if (flags & ~m.UPDATE_FLAGS) throw malformed();
    const { place, path } = this.find(flags & m.ANNOUNCED, input.varint());
    if (!place.ended) return place.interest.update(flags, path, input);
    // What was on its way when the subscription ended.
    if (flags & m.FULL_VERSION) input.varint();
    else input.u16le();
    if (flags & m.PROPERTIES) input.bytes();
    input.bytes();
  }

  private subscribe(id: number): void {
    const place = this.places[id];
    const { link } = this;
    if (!place || !link) return;
    const { interest } = place;
    const wish = interest.wish;
    let { flags } = wish;
    // What was missed, instead of the beginning.
    if (flags & m.RECOVERABLE && interest.confirmed) flags = (flags | m.RESUME) & ~m.REPLAY;
    if (wish.kind === m.TOPIC_KIND && flags & m.SNAPSHOT && this.tellsValues) {
      flags |= m.VALUES;
      // What these do not confirm is gone.
      if (interest.stale && !(flags & m.RESUME)) flags |= m.OK_LAST;
    }
    const build = (request: number): Writer => {
      if (flags & m.RESUME) this.recovering.set(request, interest);
      const out = new Writer().varint(request).varint(id).varint(flags).u8(wish.kind).string(wish.path);
      if (flags & m.SELECTOR) out.string(wish.selector!);
      if (flags & m.WINDOW) out.varint(wish.window!.messages).varint(wish.window!.bytes);
      // The position of HELLO.
      if (flags & m.RESUME) out.varint(0);
      if (flags & m.REPLAY) out.u8(wish.replay![0]).varint(wish.replay![1]);
      if (flags & m.INTERVAL) out.varint(wish.interval!);
      if (flags & m.START) out.varint(wish.start!);
      return out;
    };
    // One write: what is subscribed to is there before the server comes to that.
    const makes = wish.makes && link.request(m.OPERATE, (request) => operationOf(request, wish.makes!));
    Promise.all([link.request(m.SUBSCRIBE, build), makes]).then(
      () => {
        // An answer that the next connection has overtaken says nothing any more.
        if (this.link !== link || place.ended) return;
        interest.confirmed = true;
        interest.begun(!!(flags & m.OK_LAST));
      },
      (error: TideraceError) => {
        if (this.link !== link || error.code === "connection-lost") return;
        const { ended } = place;
        // The other one of two requests may have been done.
        if (wish.makes) void this.remove(interest);
        else this.places[id] = undefined;
        if (!ended) this.over(place, error);
      },
    );
  }
}

/** OPERATE with nothing beside the operation. */
function operationOf(request: number, operation: object): Writer {
  return new Writer().varint(request).u8(0).bytes(utf8(JSON.stringify(operation)));
}
