/** Commands and code to paste, against this very server. */
import { by, make } from "./dom.js";

const { origin, host } = location;

const SNIPPETS: [string, string][] = [
  [
    "JavaScript",
    `// npm install --install-links tiderace/clients/typescript
// (the folder of a clone), or in a page: "${origin}/tiderace.min.js"
import { connect } from "tiderace";

const client = connect("${origin}");

client.topic("demo/fx/EUR-USD").subscribe((quote, { version }) => {
  console.log(version, quote.pairs[0].tiers[0]);
});

await client.topic("demo/hello").publish({ text: "hello" }, { retain: true });`,
  ],
  [
    "curl",
    `# A topic's value, a stream of its updates, and a message of your own.
curl ${origin}/topics/demo/fx/EUR-USD
curl -N '${origin}/events?topic=demo/fx/EUR-USD'
curl ${origin}/topics/demo/hello -H 'Content-Type: application/json' -d '{"text":"hello"}'`,
  ],
  [
    "Socket.IO",
    `// npm install socket.io-client: no library of ours.
import { io } from "socket.io-client";

const socket = io("${origin}");

socket.on("message", (path, value, { version }) => console.log(path, version, value));
socket.emit("subscribe", "demo/fx/*", { snapshot: true });`,
  ],
  [
    "STOMP",
    `// npm install @stomp/stompjs, or any STOMP client, over TCP on this port as well.
import { Client } from "@stomp/stompjs";

const client = new Client({
  brokerURL: "ws://${host}/stomp",
  onConnect() {
    client.subscribe("/topic/demo/fx/EUR-USD", (message) => console.log(message.body));
  },
});
client.activate();`,
  ],
];

export function showSnippets(): void {
  const tabs = make("div");
  tabs.setAttribute("role", "tablist");
  tabs.setAttribute("aria-label", "Ways to connect");
  const panel = make("div", "code");
  panel.setAttribute("role", "tabpanel");
  panel.id = "snippet";
  const code = make("pre");
  code.tabIndex = 0;
  const copy = make("button", "copy", "Copy");
  copy.type = "button";
  panel.append(code, copy);
  const buttons = SNIPPETS.map(([name], at) => {
    const button = make("button", "", name);
    button.type = "button";
    button.id = `snippet-${at}`;
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", panel.id);
    button.addEventListener("click", () => choose(at));
    button.addEventListener("keydown", ({ key }) => {
      const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
      if (!step) return;
      const next = (at + step + SNIPPETS.length) % SNIPPETS.length;
      choose(next);
      buttons[next]!.focus();
    });
    return button;

    function choose(chosen: number): void {
      buttons.forEach((each, index) => {
        each.setAttribute("aria-selected", String(index === chosen));
        each.tabIndex = index === chosen ? 0 : -1;
      });
      panel.setAttribute("aria-labelledby", `snippet-${chosen}`);
      code.textContent = SNIPPETS[chosen]![1];
    }
  });
  tabs.append(...buttons);
  copy.addEventListener("click", () => {
    void navigator.clipboard.writeText(code.textContent ?? "").then(() => {
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
  });
  by("snippets").append(tabs, panel);
  buttons[0]!.click();
}
