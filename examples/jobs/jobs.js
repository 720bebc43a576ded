/** Jobs in a queue, workers that do them, and a topic for each job that says how it stands. Knows no page. */

const QUEUE = "jobs/images";
const DEAD = `dlq/${QUEUE}`;

/** Puts a job into the queue; settles when the server has it. */
export async function order(client, job) {
  await report(client, job.id, { state: "waiting", title: job.title });
  await client.queue(QUEUE).send(job);
}

/** Tells all who watch how a job stands. The value stays for those who come later. */
function report(client, id, value) {
  return client.topic(`jobs/images/progress/${id}`).publish(value, { retain: true });
}

/**
 * A worker: one job at a time. `work` gets a job and does it; if it throws, the job goes back to the queue, comes again after
 * a while, and is a dead letter when it has failed too often.
 */
export function worker(client, name, work) {
  const consumer = client.queue(QUEUE).receive(
    async (job, { redeliveries }) => {
      const attempt = redeliveries + 1;
      await report(client, job.id, { state: "working", title: job.title, worker: name, attempt });
      try {
        await work(job, attempt);
      } catch (error) {
        await report(client, job.id, { state: "failed", title: job.title, worker: name, attempt, why: error.message });
        throw error;
      }
      await report(client, job.id, { state: "done", title: job.title, worker: name, attempt });
    },
    { prefetch: 1 },
  );
  return { ready: consumer.ready, stop: () => consumer.stop() };
}

/** `changed` is called with each job's `id` and how it stands, `dead` with each job that has failed too often. */
export function watch(client, { changed, dead }) {
  const progress = client.topic("jobs/images/progress/*").subscribe((value, { topic, removed }) => {
    changed(topic.split("/").at(-1), removed ? undefined : value);
  });
  // Browsing shows what is in a queue, and takes nothing.
  let letters;
  const browse = () => (letters = client.queue(DEAD).browse((job) => dead(job), { follow: true }));
  browse();
  // It ends with its connection, so each further one gets a new one.
  let connections = client.state.status === "connected" ? 1 : 0;
  const off = client.on("state", ({ status }) => {
    if (status === "connected" && connections++) browse();
  });
  return {
    ready: progress.ready,
    stop: () => (off(), Promise.all([progress.unsubscribe(), letters.stop()])),
  };
}

/** Sends dead letters back to the queue they came from; how many. */
export async function again(client) {
  const { messages } = await client.operate({ do: "redrive", path: DEAD });
  return messages;
}
