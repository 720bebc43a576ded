/** What the server's feed says, and which topics it has. */
import { type Client, connect } from "tiderace";

/** The value of a topic below `demo/fx`: see the Diffusion-like messages of the feed. */
export interface Message {
  timestamp: string;
  pairName: string;
  pairs: { tiers: { open: string; high: string; low: string; bid: Price; offer: Price }[] }[];
}

/** A price in two parts, as dealers read it: `1.09` and `485`. */
interface Price {
  big: string;
  points: string;
}

/** The best price of a message. */
export interface Quote {
  bid: number;
  offer: number;
  open: number;
  /** When it was published, ms since 1970. */
  time: number;
}

export const PATTERN = "demo/fx/*";

export function read(message: Message): Quote | undefined {
  const tier = message.pairs?.[0]?.tiers?.[0];
  if (!tier) return undefined;
  const price = ({ big, points }: Price) => Number(big + points);
  return {
    bid: price(tier.bid),
    offer: price(tier.offer),
    open: Number(tier.open),
    time: Number(message.timestamp),
  };
}

/** Those that everybody knows come first. */
const FAMOUS = ["EUR-USD", "GBP-USD", "USD-JPY", "USD-CHF", "AUD-USD", "USD-CAD", "NZD-USD", "EUR-GBP", "EUR-JPY", "GBP-JPY", "EUR-CHF"];

/** Learns the names of all topics from the values that a pattern gives first. */
export async function discover(): Promise<string[]> {
  const client: Client = connect(undefined, { name: "live page, looking around" });
  const found = new Set<string>();
  try {
    await client.topic(PATTERN).subscribe((_, { topic }) => void found.add(topic), { recoverable: false, raw: true }).ready;
    for (let known = -1; known !== found.size || !found.size; ) {
      known = found.size;
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  } finally {
    client.close();
  }
  const name = (topic: string) => topic.split("/").pop()!;
  const famous = (topic: string) => (FAMOUS.indexOf(name(topic)) + FAMOUS.length + 1) % (FAMOUS.length + 1);
  return [...found].sort((a, b) => famous(a) - famous(b) || name(a).length - name(b).length || (a < b ? -1 : 1));
}
