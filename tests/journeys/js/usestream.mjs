// `useStream` in React against the gateway at URL: submit, stop, come back to a running thread.
import assert from "node:assert/strict";
import { JSDOM } from "jsdom";

const dom = new JSDOM("<div id=root></div>", { url: "http://localhost/" });
globalThis.window = dom.window;
globalThis.document = dom.window.document;
Object.defineProperty(globalThis, "navigator", { value: dom.window.navigator });
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

const { createElement, useEffect } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useStream } = await import("@langchain/langgraph-sdk/react");

const until = async (what, look) => {
  const end = Date.now() + 30_000;
  while (!look()) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

function open(options) {
  const page = { thread: options.threadId ?? null, messages: [], updates: [], errors: [] };
  const root = createRoot(document.createElement("div"));
  function Page() {
    const stream = useStream({
      apiUrl: process.env.URL,
      assistantId: "lead_agent",
      messagesKey: "messages",
      reconnectOnMount: true,
      fetchStateHistory: { limit: 1 },
      throttle: true,
      onThreadId: (id) => { page.thread = id; },
      onUpdateEvent: (update) => { page.updates.push(update); },
      onError: (error) => { page.errors.push(String(error)); },
      ...options,
    });
    page.stream = stream;
    page.messages = stream.messages;  // asks for message tuples
    useEffect(() => {});
    return null;
  }
  root.render(createElement(Page));
  page.close = () => root.unmount();
  return page;
}

const shown = (page) => page.messages.map((m) => [m.type, typeof m.content === "string" ? m.content : m.content.map((c) => c.text).join("")]);
const say = (text) => ({ messages: [{ type: "human", content: [{ type: "text", text }] }] });

// a new chat
const first = open({});
await until("the page", () => first.stream);
first.stream.submit(say("Hello"), { config: { recursion_limit: 1000 }, onDisconnect: "continue" });
await until("the answer", () => first.stream.isLoading === false && first.messages.length === 2);
assert.deepEqual(shown(first), [["human", "Hello"], ["ai", "Good day to you."]]);
assert.ok(first.updates.some((update) => update["TitleMiddleware.after_model"]?.title));
assert.deepEqual(first.errors, []);

// the second turn in the same page
first.stream.submit(say("Hello"), {});
await until("the second answer", () => first.stream.isLoading === false && first.messages.length === 4);

// left in mid-run and opened again: the run goes on, and the page shows it
first.stream.submit(say("slowly"), { onDisconnect: "continue" });
await until("the first words", () => first.messages.length === 6 && shown(first)[5][1].length > 5);
first.close();
const second = open({ threadId: first.thread });
await until("the words of the run", () => second.messages.length === 6);
assert.equal(second.stream.isLoading, true);
second.stream.stop();
await until("the stop", () => second.stream.isLoading === false);
assert.deepEqual(second.errors, []);
second.close();

// opened once more: what was said is there
const third = open({ threadId: first.thread });
await until("the history", () => third.messages.length >= 5);
assert.equal(third.stream.isLoading, false);
third.close();
console.log(JSON.stringify({ ok: true }));
process.exit(0);
