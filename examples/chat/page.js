import { connect } from "/tiderace.min.js";
import { element, frame } from "/shared/page.js";
import { join, named } from "./chat.js";

const by = (id) => document.getElementById(id);
const room = named(location.hash.slice(1)) || "lobby";
const client = connect(undefined, { name: "chat example" });
frame(client);
by("room").textContent = room;
addEventListener("hashchange", () => location.reload());

by("name").value = localStorage.getItem("chat-name") ?? "";
by("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = by("name").value.trim();
  if (!name) return;
  localStorage.setItem("chat-name", name);
  enter(name).catch(trouble);
});

async function enter(name) {
  by("enter").hidden = true;
  by("inside").hidden = false;
  const { say } = await join(client, room, name, {
    said: ({ from, text, at }) => add(from === name ? "mine" : "", element("small", {}, `${from}, ${time(at)}`), String(text)),
    people: (names) => by("people").replaceChildren(...names.map((name) => element("li", { className: "pill good" }, name))),
    missed: () => add("gap", "Messages may be missing here."),
  });
  by("text").focus();
  by("say").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = by("text").value.trim();
    by("text").value = "";
    if (text) say(text).catch(trouble);
  });
}

/** Adds a line, and stays at the end if the reader was there. */
function add(className, ...children) {
  const log = by("log");
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  by("messages").append(element("li", { className }, ...children));
  if (atEnd) log.scrollTop = log.scrollHeight;
}

const time = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

function trouble(error) {
  by("trouble").textContent = error.message;
}
