// Clicks into pictures: what stands behind the point is chosen on the page, or opened.
"use strict";

(function () {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const mine = (clientside.mindscope = clientside.mindscope || {});
  const none = () => window.dash_clientside.no_update;

  const clicked = (click) => click && click.points && click.points[0];

  // The point of a click, and the trace of the picture that it belongs to.
  function traceAt(click, name) {
    const point = clicked(click);
    const plot = point && mine.plotOf(name);
    return [point, plot && plot.data[point.curveNumber]];
  }

  Object.assign(mine, {
    // The tensor behind a cell of a layer x step map: each map carries its metric.
    openCell: function (click, name) {
      const [point, map] = traceAt(click, name);
      return map && map.meta ? [map.meta.metric, point.y, point.x] : [none(), none(), none()];
    },

    // Leads to the tensor behind a cell.
    visitCell: function (click, name, run) {
      const [point, trace] = traceAt(click, name);
      if (!trace || !trace.meta || (trace.meta.groups || {})[point.y]) {
        return none();
      }
      const said = [trace.meta.metric, trace.meta.site || point.y, point.x];
      return "/tensor" + mine.spell(run, [["metric", ""], ["site", ""], ["step", ""]], said);
    },

    // Opens the rows behind one that stands for a group.
    openGroup: function (click, name, opened) {
      const [point, trace] = traceAt(click, name);
      const group = trace && trace.meta && (trace.meta.groups || {})[point.y];
      return group && !(opened || []).includes(group) ? [...(opened || []), group] : none();
    },

    openModule: function (click) {
      const site = clicked(click) && clicked(click).customdata;
      return typeof site === "string" ? site || "(model)" : none();
    },

    openRank: function (click) {
      const row = clicked(click) && clicked(click).y;
      return typeof row === "string" ? row.replace("rank ", "") : none();
    },
  });
})();
