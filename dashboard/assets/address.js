// Controls and address in step: what is chosen stands in the URL, and another run leads to the same page of it.
"use strict";

(function () {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const mine = (clientside.mindscope = clientside.mindscope || {});
  const none = () => window.dash_clientside.no_update;

  // The query of a page: its run, then what its controls say beside the usual.
  function spell(run, keys, values) {
    const parts = run ? ["run=" + encode(run)] : [];
    keys.forEach(([key, usual], at) => {
      const said = Array.isArray(values[at]) ? values[at].join(",") : values[at];
      if (said === null || said === undefined || said === "" || String(said) === usual) {
        return;
      }
      parts.push(key + "=" + (key === "site" && said === "(model)" ? "" : encode(said)));
    });
    return parts.length ? "?" + parts.join("&") : "";
  }

  const encode = (said) => encodeURIComponent(said).replace(/%(2F|3A|2C|2A)/g, decodeURIComponent);

  // [page, run, colours, query] of the page whose controls were seen first after it was laid out.
  let settled = null;

  Object.assign(mine, {
    spell,

    // Arguments: the values of the controls, what is laid out, and the controls' keys.
    keepAddress: function (...all) {
      const [shown, keys] = all.slice(-2);
      if (!shown || !keys || JSON.stringify(shown) !== settled) {
        settled = JSON.stringify(shown); // just laid out: the controls say what the address says
        return [none(), none()];
      }
      const search = spell(shown[1], keys, all);
      if (search === shown[3]) {
        return [none(), none()];
      }
      const next = [...shown.slice(0, 3), search];
      settled = JSON.stringify(next);
      return [search, next];
    },

    // `shown` is [page, run, colours, query] of what is laid out: only a choice of another run leads away from it.
    chooseRun: (run, shown) => (!run || !shown || run === shown[1] ? none() : "?run=" + encodeURIComponent(run)),

    // The column that the table is sorted by, as `field.asc`.
    orderOf: function (columns, order) {
      const sorted = (columns || []).find((column) => column.sort);
      const next = sorted ? sorted.colId + "." + sorted.sort : "";
      return !columns || next === order ? none() : next;
    },
  });
})();
