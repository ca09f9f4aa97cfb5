// Conversations as data, and their place in the browser. Knows nothing of the page.
//
// A conversation is {id, title, named, changed, exchanges}; named: a person wrote the title. An exchange is a question
// with all that came of it: {question, files: [{name, text}], form, replies}. form: the part of "llada" that held the
// answer to a form, or null. A reply is an answer {role: "assistant", content, line, calls, stopped}, calls being
// [{id, name, arguments}], or a tool's result {role: "tool", id, name, content}.
"use strict";

const kFormat = "llada conversations", kFormatVersion = 1;
const kMostText = 2000000, kMostItems = 5000;

function newId() {
  return Date.now().toString(36) + "-" + crypto.getRandomValues(new Uint32Array(1))[0].toString(36);
}

// The first line of a question, as long as a list has room for.
function titleOf(question) {
  const line = [...question.trim().split("\n")[0].replace(/\s+/g, " ")];  // whole characters
  return line.length > 60 ? line.slice(0, 59).join("").trimEnd() + "…" : line.join("") || "New conversation";
}

class Conversations {
  constructor() {
    this.all = new Map();  // by id
    for (const id of kept.keys("talk ")) this.read(id);
  }

  // As the browser has it now.
  read(id) {
    try {
      this.all.set(id, { ...conversationOf(kept.get("talk " + id, {}), "kept"), id });
    } catch {
      this.all.delete(id);  // gone, damaged, or of another version, and then left where it is
    }
  }

  // The latest first.
  list() {
    return [...this.all.values()].sort((a, b) => b.changed - a.changed);
  }

  create() {
    return { id: newId(), title: "New conversation", named: false, changed: Date.now(), exchanges: [] };
  }

  // false: the browser has no room for it. Without exchanges there is nothing to keep.
  put(conversation) {
    if (conversation.exchanges.length === 0) {
      this.remove(conversation);
      return true;
    }
    if (!conversation.named) conversation.title = titleOf(conversation.exchanges[0].question);
    this.all.set(conversation.id, conversation);
    const { id, ...rest } = conversation;
    return kept.set("talk " + id, rest);
  }

  // Where another tab has written into the conversation since it was put: its exchanges stand, and `own`, answered here
  // meanwhile, takes the place that it has there. false: nobody has.
  merge(conversation, own) {
    let there;
    try {
      there = conversationOf(kept.get("talk " + conversation.id, {}), "kept");
    } catch {
      return false;  // gone, or never kept
    }
    if (there.changed <= conversation.changed) return false;
    const here = new Map(conversation.exchanges.map((one) => [JSON.stringify(one), one]));
    const exchanges = there.exchanges.map((one) => here.get(JSON.stringify(one)) || one);
    const asked = ({ question, files, form }) => JSON.stringify([question, files, form]);
    const at = exchanges.findLastIndex((one) => asked(one) === asked(own));
    if (at < 0) exchanges.push(own);
    else exchanges[at] = own;
    const { title, named } = there;
    Object.assign(conversation, { title, named, exchanges });
    return true;
  }

  remove(conversation) {
    this.all.delete(conversation.id);
    kept.remove("talk " + conversation.id);
  }

  // [{conversation, hit}] of those that have every word; hit: the text around the first word, "" in a title.
  search(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    if (wanted.length === 0) return this.list().map((conversation) => ({ conversation, hit: "" }));
    const found = [];
    for (const conversation of this.list()) {
      const texts = [conversation.title, ...conversation.exchanges.flatMap(textsOf)];
      const all = texts.join("\n").toLowerCase();
      if (!wanted.every((word) => all.includes(word))) continue;
      found.push({ conversation, hit: around(texts.slice(1), wanted[0]) });
    }
    return found;
  }

  exported(conversations) {
    const plain = conversations.map(({ id, ...rest }) => rest);
    return JSON.stringify({ format: kFormat, version: kFormatVersion, conversations: plain }, null, 1);
  }

  // Adds those of a file that are not here yet, all or none: {added, known}. An error is one line.
  imported(text) {
    const here = new Set([...this.all.values()].map(fingerprint));
    const read = conversationsOf(text);
    const added = read.filter((one) => !here.has(fingerprint(one))).map((one) => ({ ...one, id: newId() }));
    for (const [i, one] of added.entries()) {
      if (this.put(one)) continue;
      for (const back of added.slice(0, i + 1)) this.remove(back);
      throw new Error("the browser has no room for these conversations; nothing was imported");
    }
    return { added, known: read.length - added.length };
  }
}

function textsOf(exchange) {
  const said = (reply) => [reply.content, ...(reply.calls || []).map((call) => call.arguments)];
  return [exchange.question, ...exchange.files.map((file) => file.name), ...exchange.replies.flatMap(said)];
}

function around(texts, word) {
  for (const text of texts) {
    const at = text.toLowerCase().indexOf(word);
    if (at < 0) continue;
    const from = Math.max(0, at - 24);
    return (from > 0 ? "…" : "") + text.slice(from, at + word.length + 40).replace(/\s+/g, " ");
  }
  return "";
}

function fingerprint(conversation) {
  return JSON.stringify([conversation.title, conversation.exchanges]);
}

// The conversations of a file, checked member by member; unknown members are left out.
function conversationsOf(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("found text that is not whole JSON, needed a file that this page exported");
  }
  if (file === null || typeof file !== "object" || file.format !== kFormat)
    throw new Error(`found ${shown(file && file.format)} as its format, needed "${kFormat}"`);
  if (file.version !== kFormatVersion)
    throw new Error(`version: found ${shown(file.version)}, needed ${kFormatVersion}`);
  return listOf(file.conversations, "conversations", conversationOf);
}

function conversationOf(value, path) {
  objectOf(value, path);
  return {
    title: textOf(value.title, path + ".title").slice(0, 200),
    named: value.named === true && value.title.trim() !== "",
    changed: Number.isFinite(value.changed) ? Math.min(Math.max(value.changed, 0), Date.now()) : Date.now(),
    exchanges: listOf(value.exchanges, path + ".exchanges", exchangeOf),
  };
}

// Stands for the answer to a question that was kept, and then the page was closed.
const kNoAnswer = { role: "assistant", content: "", line: "no answer yet", stopped: true };

function exchangeOf(value, path) {
  objectOf(value, path);
  const replies = listOf(value.replies, path + ".replies", replyOf);
  return {
    question: textOf(value.question, path + ".question"),
    files: listOf(value.files ?? [], path + ".files", (file, at) => {
      objectOf(file, at);
      return { name: textOf(file.name, at + ".name").slice(0, 200), text: textOf(file.text, at + ".text") };
    }),
    form: value.form === undefined || value.form === null ? null : formOf(value.form, path + ".form"),
    replies: replies.length > 0 ? replies : [{ ...kNoAnswer }],
  };
}

function replyOf(value, path) {
  objectOf(value, path);
  const content = textOf(value.content, path + ".content");
  if (value.role === "tool")
    return { role: "tool", id: textOf(value.id, path + ".id"), name: textOf(value.name, path + ".name"), content };
  if (value.role !== "assistant")
    throw new Error(`${path}.role: found ${shown(value.role)}, needed "assistant" or "tool"`);
  const reply = { role: "assistant", content, line: textOf(value.line ?? "", path + ".line") };
  if (value.stopped === true) reply.stopped = true;
  if (value.stale === true) reply.stale = true;
  if (value.calls !== undefined)
    reply.calls = listOf(value.calls, path + ".calls", (call, at) => {
      objectOf(call, at);
      return { id: textOf(call.id, at + ".id"), name: textOf(call.name, at + ".name"),
               arguments: textOf(call.arguments, at + ".arguments") };
    });
  return reply;
}

function formOf(value, path) {
  objectOf(value, path);
  const form = {};
  for (const key of ["choice", "regex", "template", "json_schema"])
    if (value[key] !== undefined) form[key] = textOf(value[key], `${path}.${key}`);
  if (value.json_object !== undefined) form.json_object = 3;
  return form;
}

function objectOf(value, path) {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw new Error(`${path}: found ${shown(value)}, needed an object`);
}

function textOf(value, path) {
  if (typeof value !== "string") throw new Error(`${path}: found ${shown(value)}, needed a text`);
  if (value.length > kMostText)
    throw new Error(`${path}: found ${value.length} characters, needed ${kMostText} at most`);
  return value;
}

function listOf(value, path, one) {
  if (!Array.isArray(value)) throw new Error(`${path}: found ${shown(value)}, needed a list`);
  if (value.length > kMostItems) throw new Error(`${path}: found ${value.length} items, needed ${kMostItems} at most`);
  return value.map((item, i) => one(item, `${path}[${i}]`));
}

function shown(value) {
  if (value !== null && typeof value === "object") return Array.isArray(value) ? "a list" : "an object";
  const text = JSON.stringify(value);
  return text === undefined ? "nothing" : text.length > 40 ? text.slice(0, 39) + "…" : text;
}
