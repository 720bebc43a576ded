import { connect } from "/tiderace.min.js";
import { element, frame } from "/shared/page.js";
import { again, order, watch, worker } from "./jobs.js";

const by = (id) => document.getElementById(id);
const LOOKS = { waiting: "", working: "", failed: "bad", done: "good" };
const client = connect(undefined, { name: "jobs example" });
frame(client);

const rows = new Map();
const dead = new Set();
watch(client, {
  changed(id, job) {
    rows.get(id)?.remove();
    rows.delete(id);
    if (!job) return;
    // Somebody may have sent it back to the queue.
    if (job.state === "working" || job.state === "done") dead.delete(id);
    const state = element("span", { className: `pill ${LOOKS[job.state] ?? ""}` }, String(job.state));
    const cells = [job.title ?? id, state, job.worker ?? "", job.attempt ?? ""];
    const row = element("tr", {}, ...cells.map((cell, at) => element("td", { className: at === 3 ? "number" : "" }, cell)));
    rows.set(id, row);
    // The newest is above; what is beyond thirty has been seen.
    by("jobs").prepend(row);
    while (rows.size > 30) {
      const [oldest, seen] = rows.entries().next().value;
      seen.remove();
      rows.delete(oldest);
    }
    letters();
  },
  dead(job) {
    dead.add(job?.id);
    letters();
  },
});

function letters() {
  by("dead").textContent = dead.size;
  by("again").disabled = !dead.size;
}

by("again").addEventListener("click", () => {
  dead.clear();
  letters();
  again(client).catch(trouble);
});

let ordered = 0;
by("order").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = Number(event.submitter.value);
  for (let count = 0; count < (wanted || 1); count++) {
    const fails = !wanted;
    const title = `${fails ? "A broken picture" : "Picture"} ${++ordered}`;
    order(client, { id: crypto.randomUUID(), title, fails }).catch(trouble);
  }
});

let hired = 0;
/** A worker has a connection of its own, as a program of its own would. */
function hire() {
  const name = `worker ${++hired}`;
  const own = connect(undefined, { name });
  const { stop } = worker(own, name, async ({ fails }) => {
    await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 600));
    if (fails) throw new Error("the picture is broken");
  });
  const leave = element("button", { type: "button", title: "Finishes its job first" }, "Stop");
  const cut = element("button", { type: "button", title: "Closes its connection at once" }, "Cut off");
  const row = element("li", {}, name, element("span", { className: "row" }, leave, cut));
  leave.addEventListener("click", async () => {
    row.remove();
    await stop();
    own.close();
  });
  cut.addEventListener("click", () => {
    row.remove();
    own.close();
  });
  for (const button of [leave, cut]) button.setAttribute("aria-label", `${button.textContent} ${name}`);
  by("workers").append(row);
}
by("hire").addEventListener("click", hire);
hire();
hire();

function trouble(error) {
  by("trouble").textContent = error.message;
}
