/** What the pages of all examples have: how the connection stands, light or dark, and elements made of texts. */

const WORDS = { connecting: "Connecting…", connected: "Connected", waiting: "Connecting again…", closed: "Closed" };

/** Shows how the client is connected, and gives the button for the theme its work. */
export function frame(client) {
  const state = document.getElementById("state");
  const show = ({ status, transport, reason }) => {
    state.dataset.status = status;
    state.textContent = WORDS[status];
    state.title = reason?.message ?? transport ?? "";
  };
  client.on("state", show);
  show(client.state);
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const isDark = (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
  });
}

/** An element with these properties and children; texts stay texts, whatever is in them. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}
