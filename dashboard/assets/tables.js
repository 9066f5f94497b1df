// The library of tables, a megabyte that most pages have no use for: it is loaded with the first table.
"use strict";

(function () {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const mine = (clientside.mindscope = clientside.mindscope || {});
  const later = document.querySelector("script[data-later]");
  let coming = null;
  let isThere = false;

  // The library puts itself in the place of what stands in for it, whose tables would be made anew.
  function load() {
    coming = coming || new Promise((done, fail) => {
      const script = document.createElement("script");
      script.src = later.dataset.later;
      script.onload = () => {
        const library = window.dash_ag_grid;
        window.dash_ag_grid = { ...library, AgGrid };
        isThere = true;
        done({ default: library.AgGrid });
      };
      script.onerror = fail;
      document.head.appendChild(script);
    });
    return coming;
  }

  const Table = window.React.lazy(load);
  const AgGrid = (props) =>
    window.React.createElement(window.React.Suspense, { fallback: null }, window.React.createElement(Table, props));
  // Dash asks no question about a component before this has come true.
  Object.defineProperty(AgGrid, "_dashprivate_isLazyComponentReady", { get: () => isThere || load().then(() => true) });
  window.dash_ag_grid = { AgGrid };

  Object.assign(mine, {
    // Asks for the rest of a long list as soon as a part of it has come.
    askOn: function (isFilling, tick) {
      if (isFilling) {
        setTimeout(() => window.dash_clientside.set_props(tick, { n_intervals: isFilling }), 20);
      }
      return window.dash_clientside.no_update;
    },

    quickFilter: (words, options) => ({ ...options, quickFilterText: words || "" }),
  });
})();
