// What the browser keeps over a reload: the conversation, what was typed, the settings; never the key. Nothing is kept
// where the browser forbids it or is full.
"use strict";

const kept = {
  name: (key) => "llada " + location.pathname + " " + key,

  get(key, otherwise) {
    try {
      const value = JSON.parse(localStorage.getItem(kept.name(key)));
      return value === null || typeof value !== typeof otherwise ? otherwise : value;
    } catch {
      return otherwise;
    }
  },

  set(key, value) {
    try {
      localStorage.setItem(kept.name(key), JSON.stringify(value));
    } catch {
      // As above.
    }
  },

  // The text of a field, from now on and from before.
  field(input, changed) {
    input.value = kept.get(input.id, "");
    input.addEventListener("input", () => kept.set(input.id, input.value));
    if (changed) changed();
  },
};

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
