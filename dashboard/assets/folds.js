// Keeps what a person has unfolded open, and what was folded closed, where a live page is laid out anew.
"use strict";

(function () {
  const PLACE = "#content details.fold";
  const chosen = new Map(); // by place: whether it is open

  // The words without their numbers: "What follows (3 findings)" is the same fold when there are four.
  function keys() {
    const seen = new Map();
    return [...document.querySelectorAll(PLACE)].map((fold) => {
      const summary = fold.querySelector("summary");
      const words = (summary ? summary.textContent : "").replace(/\d[\d,.]*/g, "#").replace(/s\b/g, "");
      const run = new URLSearchParams(window.location.search).get("run") || "";
      const key = [window.location.pathname, run, words].join("\n");
      seen.set(key, (seen.get(key) || 0) + 1);
      return [fold, key + "\n" + seen.get(key)];
    });
  }

  // A click, by mouse or keyboard, is a person's; what a page lays out open or closed is none.
  document.addEventListener("click", (event) => {
    const summary = event.target instanceof Element ? event.target.closest(PLACE + " > summary") : null;
    const found = summary && keys().find(([fold]) => fold === summary.parentElement);
    if (found) {
      chosen.set(found[1], !found[0].open);
    }
  });

  let isWaiting = false;
  function restore() {
    isWaiting = false;
    keys().forEach(([fold, key]) => {
      if (chosen.has(key) && fold.open !== chosen.get(key)) {
        fold.open = chosen.get(key);
      }
    });
  }

  new MutationObserver(() => {
    if (chosen.size && !isWaiting) {
      isWaiting = true;
      requestAnimationFrame(restore);
    }
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
