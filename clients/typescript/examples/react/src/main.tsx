import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Tiderace, useConnection, useTopic, useTopics } from "./tiderace";

interface Quote {
  bid: number;
  ask: number;
}

function Connection() {
  const { status } = useConnection();
  return <p role="status">{status}</p>;
}

function Price({ topic }: { topic: string }) {
  const quote = useTopic<Quote>(topic);
  return <h1>{quote ? `${topic} ${quote.bid}` : "no quote yet"}</h1>;
}

function Board({ pattern }: { pattern: string }) {
  const quotes = useTopics<Quote>(pattern);
  return (
    <ul>
      {[...quotes].sort().map(([topic, { bid, ask }]) => (
        <li key={topic}>
          {topic} {bid} {ask}
        </li>
      ))}
    </ul>
  );
}

const address = import.meta.env.VITE_TIDERACE ?? "http://127.0.0.1:7800";
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Tiderace address={address}>
      <Connection />
      <Price topic="fx/EUR-USD" />
      <Board pattern="fx/*" />
    </Tiderace>
  </StrictMode>,
);
