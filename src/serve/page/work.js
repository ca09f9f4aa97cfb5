// The one piece of work that the server does for this page at a time; Esc and the stop button end it.
"use strict";

class Work {
  constructor() {
    this.abort = null;
  }

  get busy() {
    return this.abort !== null;
  }

  stop() {
    if (this.abort) this.abort.abort();
  }

  // Runs body(signal), with `button` saying Stop meanwhile.
  async run(button, body) {
    const name = button.textContent;
    this.abort = new AbortController();
    button.textContent = "Stop";
    button.classList.add("stop");
    try {
      await body(this.abort.signal);
    } finally {
      this.abort = null;
      button.textContent = name;
      button.classList.remove("stop");
    }
  }
}

// Streams one answer into a view; true when it came to its end. retry(): called by the button behind an error.
async function streamInto(view, server, path, body, signal, retry) {
  try {
    await server.stream(path, { ...body, stream: true, diffusing: "frames" }, signal, (chunk) => view.add(chunk));
    view.done();
    return true;
  } catch (error) {
    if (signal.aborted) view.done("stopped");
    else view.fail(error, retry);
    return false;
  }
}
