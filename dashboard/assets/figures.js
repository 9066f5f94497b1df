// Figures that the browser itself extends, zooms and frames.
"use strict";

(function () {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const mine = (clientside.mindscope = clientside.mindscope || {});
  const none = () => window.dash_clientside.no_update;

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

  Object.assign(mine, {
    plotOf,

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
      const plot = plotOf(prop_id.split(".")[0]);
      const whole = plot && plot.layout && plot.layout.meta && plot.layout.meta.whole;
      if (whole && range.every((end, at) => Math.abs(end - whole[at]) < 1e-6)) {
        return span ? "" : none(); // the axes were reset
      }
      const [low, high] = stepsBetween(plot, range);
      if (typeof low !== "number") {
        return none();
      }
      const first = Math.max(0, Math.floor(low));
      const next = first + "-" + Math.max(first + 1, Math.ceil(high));
      return next === span ? none() : next;
    },

    // Gives the curve above the maps their margins, so that a step stands at one place in both; not on a phone.
    alignAxes: function (_curve, _maps, curve, maps) {
      const align = () => {
        const [above, below] = [plotOf(curve), plotOf(maps)];
        const [size, target] = [above, below].map((plot) => plot && plot._fullLayout && plot._fullLayout._size);
        if (!window.Plotly || !window.Plotly.relayout || window.innerWidth <= 860 || !size || !target || !below.offsetParent) {
          return;
        }
        if (Math.abs(size.l - target.l) > 0.5 || Math.abs(size.r - target.r) > 0.5) {
          window.Plotly.relayout(above, { "margin.l": target.l, "margin.r": target.r });
        }
      };
      [50, 400, 1500].forEach((wait) => setTimeout(align, wait)); // the labels of the maps get their room as they are drawn
      return none();
    },

    paused: (isFollowing) => !isFollowing,
  });
})();
