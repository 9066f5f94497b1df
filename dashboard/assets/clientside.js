// What the browser does by itself: colour scheme, appending live points, controls and address in step, grid cells.
"use strict";

(function () {
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

  // The address of a page: its run, then what its controls say beside the usual.
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

  const plotOf = (id) => document.querySelector("#" + id + " .js-plotly-plot") || document.getElementById(id);

  // The steps that stand between two places of an axis; on one that is not of steps the points carry their steps.
  function stepsBetween(plot, [low, high]) {
    const [line] = plot._fullData || []; // here arrays that were sent packed are arrays again
    const steps = line && line.customdata;
    const axis = plot._fullLayout.xaxis;
    if (!steps || line.type === "heatmap" || !axis) {
      return [low, high];
    }
    // Plotly speaks of ranges in logarithms on a log axis, and on one of time in words that name no zone.
    const utc = (words) => Date.parse(String(words).slice(0, 23).replace(" ", "T") + "Z");
    const read = { date: utc, log: Math.log10 }[axis.type] || Number;
    const ends = axis.type === "date" ? [utc(low), utc(high)] : [low, high];
    const places = Array.from(line.x, read);
    const inside = Array.from(steps).filter((_, at) => places[at] >= ends[0] && places[at] <= ends[1]);
    return inside.length ? [inside[0], inside[inside.length - 1]] : [null, null];
  }

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

      // Moves the frames of the maps without asking the server for the maps again.
      frameCell: function (site, step, name) {
        const plot = plotOf(name);
        const maps = ((plot && plot.data) || []).filter((trace) => trace.meta && trace.showscale !== false);
        if (!maps.length || !window.Plotly) {
          return;
        }
        const line = { width: 1, color: getComputedStyle(plot).color };
        const shapes = maps.flatMap((map) => {
          const row = site ? Array.from(map.y).indexOf(site) : -1;
          const around = { type: "rect", xref: "paper", x0: 0, x1: 1, yref: map.yaxis || "y", y0: row - 0.5, y1: row + 0.5, line };
          return row < 0 ? [] : [around];
        });
        if (shapes.length && typeof step === "number") {
          shapes.push({ type: "line", x0: step, x1: step, yref: "paper", y0: 0, y1: 1, line: { ...line, dash: "dot" } });
        }
        window.Plotly.relayout(plot, { shapes });
      },

      // Arguments: what was last done to the axes of each picture, and the stretch of steps that they show.
      zoomed: function (...all) {
        const span = all.pop();
        const [{ value: done, prop_id } = {}] = window.dash_clientside.callback_context.triggered;
        if (!done || done["xaxis.autorange"]) {
          return done && span ? "" : none();
        }
        const range = done["xaxis.range"] || [done["xaxis.range[0]"], done["xaxis.range[1]"]];
        if (range.includes(undefined)) {
          return none();
        }
        const [low, high] = stepsBetween(plotOf(prop_id.split(".")[0]), range);
        if (typeof low !== "number") {
          return none();
        }
        const first = Math.max(0, Math.floor(low));
        const next = first + "-" + Math.max(first + 1, Math.ceil(high));
        return next === span ? none() : next;
      },

      paused: (isFollowing) => !isFollowing,

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

      // The tensor behind a cell of a layer x step map: each map carries its metric.
      openCell: function (click, name) {
        const point = click && click.points && click.points[0];
        const plot = point && plotOf(name);
        const map = plot && plot.data[point.curveNumber];
        return map && map.meta ? [map.meta.metric, point.y, point.x] : [none(), none(), none()];
      },

      // Leads to the tensor behind a cell.
      visitCell: function (click, name, run) {
        const point = click && click.points && click.points[0];
        const plot = point && plotOf(name);
        const trace = plot && plot.data[point.curveNumber];
        if (!trace || !trace.meta) {
          return none();
        }
        const said = [trace.meta.metric, trace.meta.site || point.y, point.x];
        return "/tensor" + spell(run, [["metric", ""], ["site", ""], ["step", ""]], said);
      },

      // `shown` is [page, run, colours, query] of what is laid out: only a choice of another run leads away from it.
      chooseRun: (run, shown) => (!run || !shown || run === shown[1] ? none() : "?run=" + encodeURIComponent(run)),

      // The column that the table is sorted by, as `field.asc`.
      orderOf: function (columns, order) {
        const sorted = (columns || []).find((column) => column.sort);
        const next = sorted ? sorted.colId + "." + sorted.sort : "";
        return !columns || next === order ? none() : next;
      },

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
    h("span", { className: "run-cell" },
      h("a", { href: data.href, className: "run-link", title: data.id, onClick: (event) => go(event, data.href) }, value),
      data.remark ? h("span", { className: "run-remark", title: data.remark }, data.remark) : null);

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
