// What the browser does by itself: colour scheme, appending live points, controls and address in step, grid cells.
"use strict";

(function () {
  const same = (a, b) => a === b || (a == null && b == null) || String(a ?? "") === String(b ?? "");
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

  // Keys of the address that are left out when they say the usual.
  const USUAL = { scalar: "loss", scale: "linear", view: "deviation" };
  const KEYS = ["scalar", "scale", "metric", "view", "site", "step"];

  function parse(search) {
    const query = new URLSearchParams(search || "");
    const said = {};
    for (const key of KEYS) {
      said[key] = query.has(key) ? query.get(key) : USUAL[key] ?? null;
    }
    if (said.site === "") {
      said.site = "(model)";
    }
    said.step = said.step === null || said.step === "" ? null : Number(said.step);
    return said;
  }

  function spell(run, said) {
    const parts = ["run=" + encodeURIComponent(run)];
    for (const key of KEYS) {
      let value = said[key];
      if (value === null || value === undefined || (value === "" && key !== "site") || value === USUAL[key]) {
        continue;
      }
      value = key === "site" && value === "(model)" ? "" : value;
      parts.push(key + "=" + encodeURIComponent(value).replaceAll("%2F", "/").replaceAll("%3A", ":"));
    }
    return "?" + parts.join("&");
  }

  // The address that the controls of the live page agree with.
  let settled = { run: null, search: null };

  const plotOf = (id) => document.querySelector("#" + id + " .js-plotly-plot") || document.getElementById(id);

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    mindscope: {
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

      // Appends only what the curve does not show yet: the figure may have been drawn after the tail was read.
      extendCurve: function (tail) {
        const plot = plotOf("live-curve");
        const line = plot && plot.data && plot.data[0];
        if (!tail || !line || line.name !== tail.name) {
          return none();
        }
        const last = line.x.length ? line.x[line.x.length - 1] : -1;
        const from = tail.x.findIndex((step) => step > last);
        return from < 0 ? none() : [{ x: [tail.x.slice(from)], y: [tail.y.slice(from)] }, [0]];
      },

      // Moves the frame of the heat map without asking the server for the map again.
      frameCell: function (site, step) {
        const plot = plotOf("live-heat");
        const heat = plot && plot.data && plot.data[0];
        if (!heat || !Array.isArray(heat.y) || !window.Plotly) {
          return;
        }
        const row = site ? heat.y.indexOf(site) : -1;
        if (row < 0 || typeof step !== "number") {
          window.Plotly.relayout(plot, { shapes: [] });
          return;
        }
        const x = heat.x.filter((first) => first <= step).pop() ?? heat.x[0];
        const line = { width: 1, color: getComputedStyle(plot).color };
        const around = { type: "rect", xref: "paper", x0: 0, x1: 1, y0: row - 0.5, y1: row + 0.5, line };
        const down = { type: "line", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: { ...line, dash: "dot" } };
        window.Plotly.relayout(plot, { shapes: [around, down] });
      },

      paused: (isFollowing) => !isFollowing,

      syncLive: function (scalar, scale, metric, view, site, step, click, search, run) {
        const triggered = window.dash_clientside.callback_context.triggered_id;
        const shown = { scalar, scale, metric, view, site, step: step === "" ? null : step };
        let wanted = { ...shown };
        const isLaidOut = window.dash_clientside.callback_context.triggered.length > 1 || settled.run !== run;
        const isSame = () => spell(run, parse(search)) === spell(run, parse(settled.search));
        if (isLaidOut || (triggered === "live-url" && isSame())) {
          settled = { run, search }; // the controls already say what the address says
          return Array(KEYS.length + 1).fill(none());
        }
        if (triggered === "live-url") {
          const query = new URLSearchParams(search || "");
          if (query.get("run") !== run) {
            return Array(KEYS.length + 1).fill(none());
          }
          wanted = { ...shown, ...parse(search) };
          wanted.metric = wanted.metric || metric;
        } else if (triggered === "live-heat" && click && click.points.length) {
          wanted.site = click.points[0].y;
          wanted.step = click.points[0].x;
        }
        const spelled = spell(run, wanted);
        const values = KEYS.map((key) => (same(wanted[key], shown[key]) ? none() : wanted[key] ?? (key === "step" ? "" : null)));
        settled = { run, search: triggered === "live-url" ? search : spelled };
        return [spelled === search || triggered === "live-url" ? none() : spelled, ...values];
      },

      // `shown` is [page, run, colours] of what is laid out: only a choice of another run leads away from it.
      chooseRun: (run, shown) => (!run || !shown || run === shown[1] ? none() : "?run=" + encodeURIComponent(run)),

      quickFilter: (words, options) => ({ ...options, quickFilterText: words || "" }),
    },
  });

  // Cells of the table of runs.
  const cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const h = (...parts) => window.React.createElement(...parts);
  const MARKS = { running: "●", finished: "✓", failed: "✕", crashed: "✕", error: "◆", warning: "▲", info: "●" };

  function go(event, href) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) {
      return;
    }
    event.preventDefault();
    window.history.pushState({}, "", href);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    window.scrollTo(0, 0);
  }

  const badge = (kind, words) =>
    h("span", { className: "badge badge-" + kind }, h("span", { className: "badge-mark", "aria-hidden": true }, MARKS[kind]), words);

  cells.RunLink = ({ data, value }) =>
    h("a", { href: data.href, className: "run-link", title: data.id, onClick: (event) => go(event, data.href) }, value);

  cells.Badge = ({ value }) => badge(value, value);

  cells.Worst = ({ data, value }) => (value ? badge(data.severity || "info", value) : h("span", { className: "muted" }, data.step === null ? "–" : "none"));

  cells.Tags = ({ value }) =>
    h("span", { className: "tags", title: value }, (value || "").split("  ").filter(Boolean).map((tag) => h("span", { className: "tag", key: tag }, tag)));

  cells.Age = ({ value }) => {
    const steps = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];
    const [, size, unit] = steps.find(([limit]) => value < limit);
    return h("span", { className: "muted" }, value < 3 ? "just now" : Math.floor(value / size) + " " + unit + " ago");
  };

  // The loss as a line of 120 x 26; a break is drawn where it was not finite, as a mark at the top.
  cells.Spark = ({ value }) => {
    const points = value || [];
    const finite = points.filter((point) => point !== null);
    if (!points.length) {
      return h("span", { className: "muted" }, "–");
    }
    const low = Math.min(...finite);
    const span = Math.max(...finite) - low || 1;
    const x = (index) => 2 + (116 * index) / Math.max(1, points.length - 1);
    const y = (point) => 23 - (20 * (point - low)) / span;
    let pen = "M";
    const path = points.map((point, index) => {
      const piece = point === null ? "" : pen + x(index).toFixed(1) + " " + y(point).toFixed(1);
      pen = point === null ? "M" : "L";
      return piece;
    }).join("");
    const marks = points.flatMap((point, index) =>
      point === null ? [h("path", { key: index, className: "spark-bad", d: `M${x(index) - 2} 2l4 4m0 -4l-4 4` })] : []);
    const label = finite.length ? "loss from " + finite[0].toPrecision(3) + " to " + finite[finite.length - 1].toPrecision(3) : "no finite loss";
    return h("svg", { viewBox: "0 0 120 26", width: 120, height: 26, role: "img", "aria-label": label },
      h("path", { className: "spark", d: path }), ...marks);
  };
})();
