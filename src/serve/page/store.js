// The browser keeps conversations, typed texts and settings over a reload; the API key only until the tab is closed.
"use strict";

const kKeyStore = "llada-api-key";

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

  // false where the browser forbids it or is full.
  set(key, value) {
    try {
      localStorage.setItem(kept.name(key), JSON.stringify(value));
      return true;
    } catch {
      return false;
    }
  },

  remove(key) {
    try {
      localStorage.removeItem(kept.name(key));
    } catch {
      // Then nothing was kept either.
    }
  },

  // The rests of the names that begin with `prefix`.
  keys(prefix) {
    const begin = kept.name(prefix);
    try {
      return Object.keys(localStorage).filter((key) => key.startsWith(begin)).map((key) => key.slice(begin.length));
    } catch {
      return [];
    }
  },

  key() {
    try {
      return sessionStorage.getItem(kKeyStore) || "";
    } catch {
      return "";
    }
  },

  setKey(key) {
    try {
      sessionStorage.setItem(kKeyStore, key);
    } catch {
      // Then it is typed again after a reload.
    }
  },

  // The text of a field, from now on and from before.
  field(input, changed) {
    input.value = kept.get(input.id, "");
    input.addEventListener("input", () => kept.set(input.id, input.value));
    if (changed) changed();
  },
};
