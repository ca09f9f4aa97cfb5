// The one piece of work that the server does for this page at a time; Esc and the button that began it end it.
"use strict";

class Work {
  constructor() {
    this.abort = null;
    this.button = null;  // began it
  }

  get busy() {
    return this.abort !== null;
  }

  stop() {
    if (this.abort) this.abort.abort();
  }

  // Whether something is under way, and then a person reads that it is.
  saysBusy() {
    if (this.busy) note("An answer is forming. Stop it first, with Esc.");
    return this.busy;
  }

  // A press of `button` ends its own work, never that of another place.
  pressed(button, begin) {
    if (this.busy && this.button === button) this.stop();
    else if (!this.saysBusy()) begin();
  }

  // Runs body(signal), with `button` saying Stop meanwhile.
  async run(button, body) {
    const name = button.textContent;
    this.abort = new AbortController();
    this.button = button;
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
