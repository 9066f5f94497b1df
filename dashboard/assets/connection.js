// Asks every few seconds whether the server still answers, and says so at the top of the page when it does not.
"use strict";

(function () {
  const EVERY_MS = 3000;
  const PATIENCE_MS = 8000; // our choice: a server beside a training may take seconds to answer
  const MISSES = 2; // one lost request is no lost server
  let missed = 0;
  let answered = new Date();

  // Any answer will do, a refusal too: only silence is a lost connection.
  async function isAnswering() {
    try {
      await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
      return true;
    } catch {
      return false;
    }
  }

  function show(isLost) {
    document.documentElement.toggleAttribute("data-connection-lost", isLost);
    const words = isLost
      ? "Connection lost: the dashboard server does not answer. This page shows what was known at " + answered.toLocaleTimeString() + "."
      : "";
    const banner = document.getElementById("connection");
    if (banner && banner.textContent !== words) {
      banner.textContent = words;
    }
  }

  async function look() {
    if (await isAnswering()) {
      missed = 0;
      answered = new Date();
    } else {
      missed += 1;
    }
    show(missed >= MISSES);
    setTimeout(look, EVERY_MS);
  }

  setTimeout(look, EVERY_MS);
})();
