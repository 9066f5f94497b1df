// plotly.js is on its way since the head of the document: Dash waits for it and does not load and run it once more.
"use strict";

(function () {
  const script = document.querySelector("script[src*='plotly.min.js']");
  if (!script || window.Plotly) {
    return;
  }
  // Dash takes a promise here as well; plotly.js puts itself in its place.
  window.Plotly = new Promise((done, fail) => {
    script.addEventListener("load", () => done(window.Plotly));
    script.addEventListener("error", () => fail(new Error("plotly.js could not be loaded")));
  });
})();
