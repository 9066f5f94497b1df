// Takes the server's first paint of a run away as soon as the page itself is there.
"use strict";

(function () {
  const firstPaint = document.getElementById("first-paint");
  if (!firstPaint) {
    return;
  }
  const watcher = new MutationObserver(() => {
    if (document.querySelector("#content > :not(.opening)")) {
      watcher.disconnect();
      firstPaint.remove();
    }
  });
  watcher.observe(document.body, { childList: true, subtree: true });
})();
