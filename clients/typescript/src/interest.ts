/**
 * What the application listens to or serves: one subscription of the protocol, kept across
 * connections. The hub gives it its id and tells it what comes.
 */
import type { Reader } from "./bytes.js";
import type { TideraceError } from "./error.js";
import type { Kind } from "./messages.js";

/** What SUBSCRIBE says, apart from ids. */
export interface Wish {
  kind: Kind;
  path: string;
  flags: number;
  selector?: string | undefined;
  window?: { messages: number; bytes: number };
  /** From where on: kind and number of the protocol. */
  replay?: readonly [number, number];
  interval?: number;
  /** The position in a queue to begin at. */
  start?: number | undefined;
  /** An operation that makes what is subscribed to, if it is not there; it goes before SUBSCRIBE. */
  makes?: object;
}

export interface Interest {
  readonly wish: Wish;
  /** Whether the server has confirmed it on some connection, so that it may be resumed. */
  confirmed: boolean;
  /** The life of a server that the versions it knows are of. */
  of?: string | undefined;
  /** The versions of the life that the client's position is of, while those it knows are of another. */
  recallable?: ReadonlyMap<string, number | undefined> | undefined;
  /** Whether it knows values that the server has not confirmed since it was subscribed last. */
  readonly stale?: boolean;
  /** It stands at the server; `settled`: and all current values have come. */
  begun(settled: boolean): void;
  /** The server refused or has ended it, or the client was closed: it is over. */
  failed(error: TideraceError): void;
  /**
   * What was missed has been recovered, or not all of it. `continues`: versions are those of the messages that
   * had them before. `another`: the life of the server that says so, if the position is of another. `settles`: it can be
   * subscribed again so that the end of the values is told.
   */
  recovered(complete: boolean, continues: boolean, another: string | undefined, settles: boolean): void;
  /** The connection is gone. */
  lost(): void;
  /** It is another server or another life of it, and what was missed, if it knew anything, cannot be recovered. */
  restarted(): void;
  /** Takes up the versions that are recallable; says whether there are. */
  recall?(): boolean;
  /** It has gained a topic, of a specification, or lost one, for a reason. */
  noticed?(gained: boolean, topic: string, text: string): void;
  /** The next version of a topic follows this one: none in between was given to a message. */
  follows?(path: string | undefined, version: number): void;
  /** All that was in the queue has come. */
  browsed?(): void;
  /** Takes one entry of UPDATES, flags and id read. `path` of a topic that was announced. */
  update(flags: number, path: string | undefined, input: Reader): void;
  /** Takes the rest of a QUEUED, flags and id read. */
  queued(path: string | undefined, input: Reader): void;
}
