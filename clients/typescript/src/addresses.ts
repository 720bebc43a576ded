/**
 * Which address is tried next, and by which transport. Randomness and time are passed in, and so is what came of a try.
 * Invariant: a round tries each pair once, the best transport of every address before a lesser one of any, and no address
 * that has refused this client for good.
 */
import type { TransportName } from "./transport/transport.js";

/** A server's address, and what is known of it. */
export interface Address {
  /** By `http:` or `https:`, with a path that ends in `/`. */
  readonly base: URL;
  /** A server has named it; the application has not. */
  readonly named: boolean;
  /** The transport that has worked there, and when it did last. */
  works?: TransportName | undefined;
  since: number;
  refused: boolean;
  /** Where in the next round: before others if a server has just named it, behind them if it has just been lost. */
  bias: number;
}

export interface Try {
  address: Address;
  transport: TransportName;
}

/** How a try, or the connection that came of it, has ended. */
export interface Ending {
  /** Whether the server said so itself. */
  told: boolean;
  /** Whether this client may come again. */
  again: boolean;
  /** Where the server sends this client. */
  elsewhere?: readonly string[];
}

export class Addresses {
  private known: Address[] = [];
  private present: Try | undefined;
  private left: Try[] = [];

  constructor(
    bases: readonly URL[],
    private readonly random: () => number,
  ) {
    for (const base of bases) this.add(base, false);
  }

  /** Begins a round; `attempt` counts those before it that came to nothing. */
  round(transports: readonly TransportName[], attempt: number, now: number): void {
    const tries = this.known.flatMap((address) => {
      if (address.refused) return [];
      const place = this.random() + address.bias;
      address.bias = 0;
      const all = wanted(address, transports, attempt, now);
      return all.map((transport, rank) => ({ address, transport, place: place + rank * 3 }));
    });
    this.left = tries.sort((a, b) => a.place - b.place);
  }

  /** What to try now; nothing when the round is over. */
  next(): Try | undefined {
    const next = this.left.shift();
    if (next) this.present = next;
    return next;
  }

  /** Whether the round goes on. */
  get more(): boolean {
    return this.left.length > 0;
  }

  /** The present try has become a connection. */
  reached(now: number): void {
    const { address, transport } = this.present!;
    address.works = transport;
    address.since = now;
    if (!address.named) this.known = this.known.filter(({ named }) => !named);
    for (const known of this.known) known.refused = false;
  }

  /** The present try, or the connection that came of it, has ended; says whether this client has to stop. */
  ended(wasReached: boolean, { told, again, elsewhere = [] }: Ending): boolean {
    const { address } = this.present!;
    if (wasReached) {
      address.bias = 1;
      this.left = [];
    } else if (told) {
      address.refused = !again;
      this.left = this.left.filter((other) => other.address !== address);
    }
    const bases = elsewhere.slice(0, ELSEWHERE_MAX).flatMap((text) => permitted(text, address.base));
    if (bases.length) this.known = this.known.filter(({ named }) => !named);
    for (const base of bases) Object.assign(this.add(base, true), { refused: false, bias: -1 });
    return told && !again && (wasReached || this.known.every(({ refused }) => refused));
  }

  /** The network is another one: what has worked may not, and the other way round. */
  forget(): void {
    for (const address of this.known) address.works = undefined;
  }

  private add(base: URL, named: boolean): Address {
    let address = this.known.find(({ base: { href } }) => href === base.href);
    if (!address) this.known.push((address = { base, named, since: 0, refused: false, bias: 0 }));
    return address;
  }
}

/** What has worked is given a few chances before others are tried. */
function wanted(
  { works, since }: Address,
  transports: readonly TransportName[],
  attempt: number,
  now: number,
): readonly TransportName[] {
  if (!works || (works !== transports[0] && now - since > RETRY_BEST_MS)) return transports;
  return attempt < LOYAL_ATTEMPTS ? [works] : [works, ...transports.filter((name) => name !== works)];
}

/** The address as this client uses it. */
export function baseOf(url: string | URL, page?: string): URL {
  const base = new URL(url, page);
  base.search = base.hash = "";
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  base.protocol = base.protocol.replace("ws", "http");
  return base;
}

/** One address or none: it must be ours to use, and no less secure than the one that names it. */
function permitted(text: string, from: URL): URL[] {
  if (text.length > ELSEWHERE_CHARACTERS_MAX || !/^(ws|http)s?:/i.test(text)) return [];
  try {
    const base = baseOf(text);
    return base.protocol === "https:" || base.protocol === from.protocol ? [base] : [];
  } catch {
    return [];
  }
}

/** How long a lesser transport is kept before a new connection tries the best one again. */
const RETRY_BEST_MS = 5 * 60_000;
/** Rounds in a row with the transport that has worked, before the others are tried as well. */
const LOYAL_ATTEMPTS = 3;
/** Addresses of one goodbye, and characters of each. */
const ELSEWHERE_MAX = 8;
const ELSEWHERE_CHARACTERS_MAX = 1024;
