// The colour scheme: what a person chose, else what the system prefers, painted before anything is drawn.
"use strict";

(function () {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const mine = (clientside.mindscope = clientside.mindscope || {});
  const none = () => window.dash_clientside.no_update;

  const isKnown = (scheme) => scheme === "dark" || scheme === "light";
  const preferred = () => (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  function remembered() {
    try {
      return JSON.parse(window.localStorage.getItem("scheme-choice"));
    } catch {
      return null;
    }
  }

  function paint(scheme) {
    document.documentElement.setAttribute("data-mantine-color-scheme", scheme);
    document.documentElement.style.colorScheme = scheme;
  }

  const chosen = remembered();
  paint(isKnown(chosen) ? chosen : preferred());

  Object.assign(mine, {
    scheme: function (clicks, _changed, choice, shown) {
      const triggered = window.dash_clientside.callback_context.triggered_id;
      let next = isKnown(choice) ? choice : preferred();
      let saved = none();
      if (triggered === "scheme-button" && clicks) {
        next = (shown || next) === "dark" ? "light" : "dark";
        saved = next;
      }
      paint(next);
      return [saved, next === shown ? none() : next, next];
    },
  });
})();
