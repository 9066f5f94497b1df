// Takes the server's first picture of a run away as soon as the page itself is there.
"use strict";

(function () {
  const glimpse = document.getElementById("glimpse");
  if (!glimpse) {
    return;
  }
  const watcher = new MutationObserver(() => {
    if (document.querySelector("#content > :not(.opening)")) {
      watcher.disconnect();
      glimpse.remove();
    }
  });
  watcher.observe(document.body, { childList: true, subtree: true });
})();
