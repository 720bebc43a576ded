/** Hooks for Tiderace: one client for the whole page, topics and the connection as state of components. */
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from "react";
import { type Client, connect, type State } from "tiderace";

const Connected = createContext<Client | undefined>(undefined);

/** Connects while it is shown; its children use the client. */
export function Tiderace({ address, children }: { address: string; children: ReactNode }) {
  const [client, setClient] = useState<Client>();
  useEffect(() => {
    const client = connect(address);
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

/** The current value of a topic: undefined before the first, and when it has been removed. */
export function useTopic<Value>(path: string): Value | undefined {
  const values = useTopics<Value>(path);
  return values.get(path);
}

/** The current values of all topics that a pattern names, by path. */
export function useTopics<Value>(pattern: string): ReadonlyMap<string, Value> {
  const client = useClient();
  const [values, setValues] = useState<ReadonlyMap<string, Value>>(new Map());
  useEffect(() => {
    const newest = new Map<string, Value>();
    let frame: number | undefined;
    // However many updates come, the page is drawn once a frame.
    const draw = () => {
      frame = undefined;
      setValues(new Map(newest));
    };
    const subscription = client.topic<Value>(pattern).subscribe((value, { topic, removed }) => {
      if (removed) newest.delete(topic);
      else newest.set(topic, value);
      frame ??= requestAnimationFrame(draw);
    });
    return () => {
      if (frame !== undefined) cancelAnimationFrame(frame);
      setValues(new Map());
      void subscription.unsubscribe();
    };
  }, [client, pattern]);
  return values;
}
