/** A room of the chat: what is said in it, and who is there. Knows no page: it is given a client and told what to call. */

/** A level of a topic's path that stands for any name: it may hold no `/` and no wildcard. */
const level = (name) => encodeURIComponent(name).replace(/\*/g, "%2A");

/** The text of a level, or nothing if it is none that a page of this chat has made. */
export function named(level) {
  try {
    return decodeURIComponent(level);
  } catch {
    return undefined;
  }
}

/**
 * Joins a room under a name. `said` is called with each message, first those that the room has kept; `people` with the names of
 * those who are there whenever they change; `missed` when messages have come and gone while this client was away.
 */
export async function join(client, room, name, { said, people, missed }) {
  const topic = client.topic(`chat/${level(room)}`);
  const known = new Set();
  const messages = topic.subscribe(
    (message) => {
      // After a restart of the server the room tells what it has kept once more.
      if (!message?.id || known.has(message.id)) return;
      known.add(message.id);
      said(message);
    },
    { replay: { last: 50 } },
  );
  messages.on("gap", () => missed());

  // To be there is to subscribe to a topic of one's own name: the server shows who subscribes below $sys/presence, and
  // takes it away when the session ends, however it ends.
  const own = client.topic(`${topic.path}/people/${level(name)}`).subscribe(() => {});
  const sessions = new Map();
  const tell = () => people([...new Set(sessions.values())].sort((a, b) => a.localeCompare(b)));
  const presence = client.topic(`$sys/presence/${topic.path}/people/*/*`).subscribe((_, { topic, removed }) => {
    const name = named(topic.split("/").at(-2));
    if (removed) sessions.delete(topic);
    else if (name !== undefined) sessions.set(topic, name);
    tell();
  });
  const all = [messages, own, presence];
  await Promise.all(all.map(({ ready }) => ready));
  return {
    /** Settles when the server has it. */
    say: (text) => topic.publish({ id: crypto.randomUUID(), from: name, text, at: Date.now() }),
    leave: () => Promise.all(all.map((subscription) => subscription.unsubscribe())),
  };
}
