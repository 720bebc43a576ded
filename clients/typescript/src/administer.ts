/**
 * `tiderace/queues`: what can be done with queues beyond sending and receiving. Works on a client's `operate`, and is a
 * module of its own so that pages that only listen need not load it.
 */
import type { Client } from "./client.js";
import type { Properties } from "./content.js";

/** How a queue stands. */
export interface QueueState {
  path: string;
  /** Messages that are ready. */
  messages: number;
  /** Messages that consumers have and did not settle. */
  in_flight: number;
  /** Messages that wait for the time when they are to be delivered. */
  delayed: number;
  /** Message groups of which some message is in flight, or waits after a failure. */
  groups: number;
  /** Bytes of all these. */
  bytes: number;
  /** Of the ready messages, those that are on the disk alone; absent if there are none. */
  swapped?: number;
  swapped_bytes?: number;
  consumers: number;
  /** Those who are shown its messages and take none; absent if there are none. */
  browsers?: number;
  /** It has as much as it may. */
  full: boolean;
  /** Consumers get nothing. */
  paused: boolean;
  /** The topics that feed it, joined by commas; absent if none does. */
  topics?: string;
  /** What it takes of these; absent if everything. */
  selector?: string;
  /** For how long the first of the ready messages has been on the server, in milliseconds. */
  oldest_ms?: number;
  /** The principal in whose account it counts; absent if it is nobody's. */
  owner?: string;
}

/** What was chosen for a queue; 0 is no limit. */
export interface QueueSettings {
  memory_bytes_max: number;
  disk_bytes_max: number;
  prefetch_count: number;
  prefetch_bytes: number;
  redeliveries_max: number;
  /** Absent: dead letters are dropped. */
  dead_letter?: string;
  idle_ms: number;
  /** How long a message waits that has failed once. */
  redelivery_delay_ms: number;
  /** How many times as long it waits after each further failure. */
  redelivery_delay_factor: number;
  /** The longest that it waits. */
  redelivery_delay_max_ms: number;
  /** For how long publishers may have messages wait. */
  delay_max_ms: number;
  messages_max: number;
  /** What becomes of messages for it when it is full. */
  full_policy: "block" | "reject" | "drop-head" | "drop-tail";
  /** Which consumer gets the next message. */
  dispatch: "round-robin" | "first";
  /** Messages that expire are dead letters. */
  dead_letter_expired: boolean;
  /** It and the topic of its name mirror each other. */
  mirrored: boolean;
  /** The most urgent messages come first. */
  priorities: boolean;
}

export interface QueueConsumer {
  session: string;
  subscription: number;
  /** Messages in flight to it, those of other queues included. */
  in_flight: number;
  in_flight_bytes: number;
  /** What may be in flight to it; 0 is no limit. */
  prefetch_count: number;
  prefetch_bytes: number;
  /** How many messages it may still be given, if it gives credit. */
  credit?: number;
  selector?: string;
  /** It wants the queue for itself. */
  exclusive: boolean;
  /** It gets messages: nobody else has the queue for itself. */
  active: boolean;
  /** Its client settles. */
  settles: boolean;
}

export interface QueueDetails extends QueueState {
  options: QueueSettings;
  /** Its consumers. */
  listed: QueueConsumer[];
}

/** A message that is ready in a queue. */
export interface ReadyMessage<T = unknown> {
  position: number;
  redeliveries: number;
  /** For how long it has been on the server, in milliseconds. */
  age_ms: number;
  /** When its time is over, in milliseconds since 1970. */
  expires?: number;
  persistent: boolean;
  /** Bytes of its body, if the value is only its beginning. */
  cut?: number;
  value?: T;
  properties?: Properties;
}

export interface PeekOptions {
  /** Only messages from this position on. */
  from?: number;
  /** Only messages whose properties match this SQL-92 condition. */
  selector?: string;
  /** Bytes of each body; what is longer is cut. */
  bodyBytes?: number;
  /** How many the server is asked for at a time. */
  page?: number;
}

export interface MoveOptions {
  /** Only messages whose properties match this SQL-92 condition. */
  selector?: string;
  /** At most so many. */
  limit?: number;
  /** Only messages up to this position: that of an earlier answer, for the next part of what was meant then. */
  up_to?: number;
}

/** What has become of messages that were to go to another queue. */
export interface Moved {
  messages: number;
  /** How many had to stay. */
  kept: number;
  /** The position up to which messages were looked at: what came later has a higher one. */
  up_to: number;
  /** Why the first of these had to. */
  refused?: { code: string; reason: string };
}

/** All queues that a client may see. */
export class Queues {
  /** @internal */
  constructor(private readonly client: Client) {}

  /** The queues that a pattern names, page by page. */
  async *list(pattern = "**", options: { page?: number } = {}): AsyncGenerator<QueueState, void> {
    for (let after: string | undefined, more = true; more; ) {
      const request = { do: "queues", pattern, after, limit: options.page };
      const found = await this.client.operate<{ queues: QueueState[]; more: boolean; next?: string }>(request);
      yield* found.queues;
      more = found.more;
      after = found.next;
    }
  }

  /** A queue with its options and all its consumers. */
  async show(path: string): Promise<QueueDetails> {
    const listed: QueueConsumer[] = [];
    for (let after: number | undefined; ; ) {
      const { more, next, ...found } = await this.client.operate<QueueDetails & { more: boolean; next?: number }>({
        do: "queue",
        path,
        after,
      });
      listed.push(...found.listed);
      if (!more) return { ...found, listed };
      after = next;
    }
  }

  /** The messages that are ready in a queue and stay there, page by page. */
  async *peek<T = unknown>(path: string, options: PeekOptions = {}): AsyncGenerator<ReadyMessage<T>, void> {
    const { from, selector, bodyBytes, page } = options;
    for (let next = from, more = true; more; ) {
      const request = { do: "peek", path, from: next, limit: page, body_bytes: bodyBytes, selector };
      const found = await this.client.operate<{ messages: ReadyMessage<T>[]; more: boolean; next?: number }>(request);
      yield* found.messages;
      more = found.more;
      next = found.next;
    }
  }

  /** Removes the messages that are ready in a queue; how many. */
  async purge(path: string, options: { selector?: string; up_to?: number } = {}): Promise<number> {
    return (await this.client.operate<{ messages: number }>({ do: "purge", path, ...options })).messages;
  }

  /** Moves the messages that are ready in a queue to another one. */
  move(from: string, to: string, options: MoveOptions = {}): Promise<Moved> {
    return this.client.operate({ do: "move", from, to, ...options });
  }

  /** Sends dead letters back to where they came from, or to another queue, as new. */
  redrive(path: string, options: MoveOptions & { to?: string } = {}): Promise<Moved> {
    return this.client.operate({ do: "redrive", path, ...options });
  }

  /** Lets consumers wait: they get nothing of a queue until it is resumed. */
  async pause(path: string): Promise<void> {
    await this.client.operate({ do: "pause", path });
  }

  /** Gives consumers the messages of a queue again. */
  async resume(path: string): Promise<void> {
    await this.client.operate({ do: "resume", path });
  }
}

/** What a client can do with queues beyond sending and receiving. */
export function queuesOf(client: Client): Queues {
  return new Queues(client);
}
