/**
 * `tiderace/manage`: what can be asked of a running server by those who look after it. Works on a client's `operate`, and
 * is a module of its own so that others need not load it. Its functions and their fields are made of the table of
 * core/manage (`verbs.ts`): this file says only how they are done.
 */
import type { Moved, QueueConsumer, QueueState, ReadyMessage } from "./administer.js";
import type { Client } from "./client.js";
import type { Entry, View } from "./manage.js";
import { type Management, verbs } from "./verbs.js";

export * from "./verbs.js";

/** What a verb answers, as docs/management.md and the pages that it names say. */
export type Answer = Record<string, unknown>;

/** A session, as lists show it. */
export interface Session {
  id: string;
  /** Empty before the login. */
  name: string;
  subscriptions: number;
  backlog_messages: number;
  backlog_bytes: number;
  /** Messages for which a newer one was put in their place. */
  conflated: number;
  dropped: number;
  host?: string;
  groups?: string[];
  address?: string;
  port?: number;
  protocol?: string;
  transport?: string;
  tls?: boolean;
  /** When it began, in milliseconds since 1970. */
  since?: number;
  [more: string]: unknown;
}

/** Answers that are known by name, those of one entry where it is a list; of all others any member may be asked for. */
interface Answers {
  sessions: Session;
  showSession: { sessions: Session[] };
  kick: { sessions: number; dry_run: boolean };
  kickSession: { sessions: number; dry_run: boolean };
  topics: Entry;
  queues: QueueState;
  queue: QueueConsumer;
  peek: ReadyMessage;
  purge: { messages: number };
  move: Moved;
  redrive: Moved;
  subscriptions: QueueState;
  views: { views: View[] };
}

/** What a function answers, or what its list is of. */
export type AnswerOf<Name extends string> = Name extends keyof Answers ? Answers[Name] : Answer;

/** These fields, of which at least one of those is there. */
export type SomeOf<Fields, Names extends keyof Fields> = Fields & { [Name in Names]: Required<Pick<Fields, Name>> }[Names];

/** What is known of a verb. */
export interface Verb {
  /** Its name in docs/management.md. */
  readonly name: string;
  /** The operation that it is. */
  readonly do: string;
  /** The first role that may. */
  readonly role: "viewer" | "operator" | "admin";
  /** Members of the operation that are always the same. */
  readonly with?: Readonly<Record<string, unknown>>;
  /** It is a list in pages, each of which begins where this field says. */
  readonly pages?: string;
  /** The server is another one behind it. */
  readonly changes?: true;
  /** It cannot be taken back: a person is to agree. */
  readonly confirm?: true;
  /** Who may not is shown an empty list, and not told so. */
  readonly hides?: true;
}

/** A list that the server gives in pages: a loop over it asks for the next one when it has come to the end of one. */
export class List<Item> implements AsyncIterable<Item> {
  /** @internal */
  constructor(private readonly ask: (begin?: object) => Promise<Answer>, private readonly begins: string) {}

  /** One page, with what the server says beside its list. */
  page<Page = Answer>(): Promise<Page> {
    return this.ask() as Promise<Page>;
  }

  /** All from there on. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void> {
    for (let begin: object | undefined, more: unknown = true; more; ) {
      const found = await this.ask(begin);
      // Such an answer has one member that is a list.
      yield* (Object.values(found).find(Array.isArray) as Item[] | undefined) ?? [];
      more = found["more"] && found["next"] !== undefined;
      begin = { [this.begins]: found["next"] };
    }
  }
}

/** What can be asked of the server that a client is connected to, by the rights that this client has. */
export function manage(client: Client): Management {
  const all = Object.entries<Verb>(verbs).map(([name, verb]) => {
    const ask = (fields?: object, begin?: object): Promise<Answer> =>
      client.operate({ ...fields, ...begin, ...verb.with, do: verb.do });
    const done = (fields?: object) =>
      verb.pages ? new List((begin) => ask(fields, begin), verb.pages) : ask(fields);
    return [name, done];
  });
  return Object.fromEntries(all) as Management;
}
