/** A board of prices: the newest quote of each topic of a pattern, with the way that it moved. Knows no page. */

/**
 * Shows the prices of a pattern. `changed` is called with the pairs whose prices are new, `{ pair, bid, ask, move }` each, or
 * `{ pair }` alone if its price is gone, at most once in a turn of `schedule` however many updates come.
 * After `stop` it is not called any more.
 */
export function board(client, pattern, { deltas = true, schedule, changed }) {
  const quotes = new Map();
  let waiting = new Map();
  let isShown = true;
  const subscription = client.topic(pattern).subscribe(
    (value, { topic }) => {
      const pair = topic.split("/").at(-1);
      const { bid, ask } = value ?? {};
      let quote = { pair };
      if (bid === undefined) {
        quotes.delete(pair);
      } else {
        const move = Math.sign(Number(bid) - Number(quotes.get(pair)?.bid ?? bid));
        quote = { pair, bid, ask, move };
        quotes.set(pair, quote);
      }
      if (!waiting.size) {
        schedule(() => {
          const now = waiting;
          waiting = new Map();
          if (isShown) changed([...now.values()]);
        });
      }
      waiting.set(pair, quote);
    },
    { deltas },
  );
  return { ready: subscription.ready, stop: () => ((isShown = false), subscription.unsubscribe()) };
}

/** What deltas have saved of the bytes that values would have taken, from 0 to 1. */
export function saved(before, now) {
  const got = now.bytesReceived - before.bytesReceived;
  const spared = now.deltaBytesSaved - before.deltaBytesSaved;
  return got + spared ? spared / (got + spared) : 0;
}
