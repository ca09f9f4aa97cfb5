// What goes over the network: requests, their streams of events, and errors as one sentence.
"use strict";

class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// headers(): of every request; the key is asked for each time because it may have been typed since.
class Server {
  constructor(key) {
    this.key = key;
  }

  headers() {
    const key = this.key();
    return key ? { "Content-Type": "application/json", Authorization: "Bearer " + key }
               : { "Content-Type": "application/json" };
  }

  async get(path) {
    const answer = await fetch(path, { headers: this.headers() });
    if (!answer.ok) throw await errorOf(answer);
    return answer.json();
  }

  // Calls take(object) for every event until the stream ends; aborting `signal` ends it and the server's work.
  async stream(path, body, signal, take) {
    const answer = await fetch(path, { method: "POST", headers: this.headers(), body: JSON.stringify(body), signal });
    if (!answer.ok) throw await errorOf(answer);
    const events = new EventReader();
    const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await text.read();
      if (done) throw new ServerError("the connection ended before the answer did");
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
