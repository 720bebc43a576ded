/** Hooks for Tiderace: one client for the whole page, topics and the connection as state of components. */
import { createContext, type ReactNode, useContext, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { type Client, connect, type ConnectOptions, type State } from "tiderace";

const Connected = createContext<Client | undefined>(undefined);

/** Connects while it is shown; its children use the client. `options` are those of `connect`, as they are when it is shown first. */
export function Tiderace({ address, options, children }: { address: string; options?: ConnectOptions; children: ReactNode }) {
  const [client, setClient] = useState<Client>();
  const first = useRef(options);
  useEffect(() => {
    const client = connect(address, first.current);
    setClient(client);
    return () => client.close();
  }, [address]);
  return client && <Connected value={client}>{children}</Connected>;
}

/** The client of the nearest `Tiderace` above. */
export function useClient(): Client {
  const client = useContext(Connected);
  if (!client) throw new Error("there is no <Tiderace> above this component");
  return client;
}

/** How the connection stands. */
export function useConnection(): State {
  const client = useClient();
  return useSyncExternalStore(
    (changed) => client.on("state", changed),
    () => client.state,
  );
}

/**
 * The current value of a topic: undefined before the first, and when it has been removed. The path may be short, as `~/inbox`
 * is for the inbox of the user who is logged in: values come under the whole path, so it is not asked for by the one given.
 */
export function useTopic<Value>(path: string): Value | undefined {
  const [value] = useTopics<Value>(path).values();
  return value;
}

/** The current values of all topics that a pattern names, by path. */
export function useTopics<Value>(pattern: string): ReadonlyMap<string, Value> {
  const client = useClient();
  const [drawn, setDrawn] = useState<Drawn<Value>>();
  useEffect(() => {
    const newest = new Map<string, Value>();
    let frame: number | undefined;
    // However many updates come, the page is drawn once a frame.
    const draw = () => {
      frame = undefined;
      setDrawn({ client, pattern, values: new Map(newest) });
    };
    const subscription = client.topic<Value>(pattern).subscribe((value, { topic, removed }) => {
      if (removed) newest.delete(topic);
      else newest.set(topic, value);
      frame ??= requestAnimationFrame(draw);
    });
    return () => {
      if (frame !== undefined) cancelAnimationFrame(frame);
      void subscription.unsubscribe();
    };
  }, [client, pattern]);
  // What was drawn of another pattern, or by another client, is not shown for this one.
  return drawn?.client === client && drawn.pattern === pattern ? drawn.values : none;
}

interface Drawn<Value> {
  client: Client;
  pattern: string;
  values: ReadonlyMap<string, Value>;
}

const none: ReadonlyMap<string, never> = new Map<string, never>();
