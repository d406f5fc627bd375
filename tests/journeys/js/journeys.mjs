// Journeys of `Client` against the gateway at URL. Prints one JSON object; fails by an exception.
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: process.env.URL, apiKey: null, callerOptions: { maxRetries: 0 } });
const hello = { messages: [{ role: "user", content: "Hello" }] };
const told = {};

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const textOf = (parts) =>
  parts
    .filter((part) => part.event === "messages" && part.data[0].type === "AIMessageChunk")
    .map((part) => part.data[0].content)
    .join("");

// threads
const thread = await client.threads.create({ metadata: { colour: "green" } });
assert.equal((await client.threads.get(thread.thread_id)).metadata.colour, "green");
await client.threads.update(thread.thread_id, { metadata: { size: 3 } });
const found = await client.threads.search({ metadata: { colour: "green", size: 3 } });
assert.deepEqual(found.map((row) => row.thread_id), [thread.thread_id]);

// runs: stream, join, list, get
let created;
const parts = await collect(
  client.runs.stream(thread.thread_id, "lead_agent", {
    input: hello,
    streamMode: ["messages-tuple", "values", "updates", "custom"],
    onRunCreated: (run) => { created = run; },
  }),
);
assert.equal(textOf(parts), "Good day to you.");
assert.equal(parts[0].event, "metadata");
assert.equal(parts.at(-1).event, "end");
assert.equal(created.thread_id, thread.thread_id);
const again = await collect(
  client.runs.joinStream(thread.thread_id, created.run_id, { lastEventId: "-1" }),
);
assert.equal(textOf(again), "Good day to you.");
const middle = parts[Math.floor(parts.length / 2)];
const rest = await collect(
  client.runs.joinStream(thread.thread_id, created.run_id, {
    lastEventId: middle.id,
    streamMode: ["messages-tuple", "values", "updates", "custom"],
  }),
);
assert.deepEqual(rest.at(-1), parts.at(-1));
assert.equal((await client.runs.get(thread.thread_id, created.run_id)).status, "success");
assert.equal((await client.runs.list(thread.thread_id)).length, 1);
const joined = await client.runs.join(thread.thread_id, created.run_id);
assert.equal(joined.messages.length, 2);

// wait, background, state, history
const waited = await client.runs.wait(thread.thread_id, "lead_agent", { input: hello });
assert.equal(waited.messages.at(-1).content, "Good day to you.");
const background = await client.runs.create(thread.thread_id, "lead_agent", { input: hello });
await client.runs.join(thread.thread_id, background.run_id);
const state = await client.threads.getState(thread.thread_id);
assert.equal(state.values.messages.length, 6);
const history = await client.threads.getHistory(thread.thread_id, { limit: 50 });
assert.equal(history[0].values.messages.length, 6);
const early = history.find((entry) => entry.values.messages.length === 2);
const then = await client.threads.getState(thread.thread_id, early.checkpoint.checkpoint_id);
assert.equal(then.values.messages.length, 2);
await client.threads.updateState(thread.thread_id, { values: { title: "Named" } });
assert.equal((await client.threads.getState(thread.thread_id)).values.title, "Named");

// cancel
const slow = await client.runs.create(thread.thread_id, "lead_agent", {
  input: { messages: [{ role: "user", content: "slowly" }] },
});
await client.runs.cancel(thread.thread_id, slow.run_id, true);
assert.equal((await client.runs.get(thread.thread_id, slow.run_id)).status, "interrupted");

// stateless
const alone = await collect(
  client.runs.stream(null, "lead_agent", { input: hello, streamMode: "values" }),
);
assert.equal(alone.filter((part) => part.event === "values").at(-1).data.messages.length, 2);

// crons
const cron = await client.crons.create("lead_agent", { schedule: "0 9 * * 1", input: hello });
assert.equal((await client.crons.search({ assistantId: "lead_agent" })).length, 1);
await client.crons.delete(cron.cron_id);
assert.equal((await client.crons.search({})).length, 0);

// store
await client.store.putItem(["notes", "a"], "one", { text: "first" });
assert.deepEqual((await client.store.getItem(["notes", "a"], "one")).value, { text: "first" });
assert.equal((await client.store.searchItems(["notes"])).items.length, 1);
assert.deepEqual((await client.store.listNamespaces({})).namespaces, [["notes", "a"]]);
await client.store.deleteItem(["notes", "a"], "one");
assert.equal((await client.store.searchItems(["notes"])).items.length, 0);

// assistants
const assistants = await client.assistants.search({ graphId: "lead_agent" });
assert.equal(assistants[0].assistant_id, "lead_agent");
const made = await client.assistants.create({ graphId: "lead_agent", name: "Mine" });
assert.equal((await client.assistants.get(made.assistant_id)).name, "Mine");
assert.ok((await client.assistants.getGraph("lead_agent")).nodes.length > 2);
await client.assistants.delete(made.assistant_id);

// copy, delete
const copy = await client.threads.copy(thread.thread_id);
assert.notEqual(copy.thread_id, thread.thread_id);
await client.threads.delete(thread.thread_id);
await assert.rejects(client.threads.get(thread.thread_id), /404/);

told.ok = true;
console.log(JSON.stringify(told));
process.exit(0);
