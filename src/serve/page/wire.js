// What goes over the network: requests, their streams of events, and errors as one sentence.
"use strict";

class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// Where the server is: the page may lie below a path of a proxy.
const kBase = location.pathname.endsWith("/") ? location.pathname : location.pathname + "/";

// key(): for every request, because it may have been typed since. refused(): called when the server wants another one.
class Server {
  constructor(key, refused) {
    this.key = key;
    this.refused = refused;
  }

  headers() {
    const key = this.key();
    return key ? { "Content-Type": "application/json", Authorization: "Bearer " + key }
               : { "Content-Type": "application/json" };
  }

  async fetch(path, options) {
    let answer;
    try {
      answer = await fetch(kBase + path, { ...options, headers: this.headers() });
    } catch (error) {
      if (options.signal && options.signal.aborted) throw error;
      if (/[^\x20-\xff]/.test(this.key())) throw new ServerError("The API key has a character that cannot be sent.");
      throw new ServerError(`The server at ${location.host} does not answer.`);
    }
    if (answer.ok) return answer;
    if (answer.status === 401) this.refused();
    throw await errorOf(answer);
  }

  async get(path) {
    return (await this.fetch(path, {})).json();
  }

  async post(path, body, signal) {
    return (await this.fetch(path, { method: "POST", body: JSON.stringify(body), signal })).json();
  }

  // Calls take(object) for every event until the stream ends; aborting `signal` ends it and the server's work.
  async stream(path, body, signal, take) {
    const answer = await this.fetch(path, { method: "POST", body: JSON.stringify(body), signal });
    const events = new EventReader();
    const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await text.read().catch((error) => {
        if (signal.aborted) throw error;
        return { done: true };
      });
      if (done) throw new ServerError(`The connection to ${location.host} ended before the answer did.`);
      for (const data of events.add(value)) {
        if (data === "[DONE]") return;
        const object = JSON.parse(data);
        if (object.error) throw new ServerError(object.error.message, object.error.code);
        take(object);
      }
    }
  }
}

// Server-sent events: "data: ..." lines, an empty line ends an event, lines that begin with a colon keep the
// connection alive. A chunk of the network may end anywhere.
class EventReader {
  constructor() {
    this.rest = "";
    this.data = [];
  }

  add(chunk) {
    const lines = (this.rest + chunk).split("\n");
    this.rest = lines.pop();
    const complete = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line.startsWith("data:")) {
        this.data.push(line.slice(line[5] === " " ? 6 : 5));
      } else if (line === "" && this.data.length > 0) {
        complete.push(this.data.join("\n"));
        this.data = [];
      }
    }
    return complete;
  }
}

async function errorOf(answer) {
  const text = await answer.text();
  let message = text;
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // Not every proxy between here and the server answers in JSON.
  }
  return new ServerError(message || answer.statusText || "status " + answer.status, answer.status);
}
