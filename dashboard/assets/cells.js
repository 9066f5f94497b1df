// What stands in the cells of tables: links, badges, tags, ages, and the loss as a small line.
"use strict";

(function () {
  const cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const h = (...parts) => window.React.createElement(...parts);
  const MARKS = { running: "●", finished: "✓", failed: "✕", crashed: "✕", interrupted: "■", stopped: "■", error: "◆", warning: "▲", info: "●" };

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

  // The first anomaly as a badge, without one the verdict in words.
  cells.Worst = ({ data, value }) => (data.severity ? badge(data.severity, value) : h("span", { className: "muted" }, data.step === null ? "–" : value));

  cells.Tags = ({ value }) =>
    h("span", { className: "tags", title: value }, (value || "").split("  ").filter(Boolean).map((tag) => h("span", { className: "tag", key: tag }, tag)));

  cells.Age = ({ value }) => {
    const steps = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];
    const [, size, unit] = steps.find(([limit]) => value < limit);
    return h("span", { className: "muted" }, value < 3 ? "just now" : Math.floor(value / size) + " " + unit + " ago");
  };

  cells.Elapsed = ({ value }) => {
    const [minutes, hours, days] = [60, 3600, 86400].map((size) => Math.floor(value / size));
    const words = days ? days + " d " + (hours % 24) + " h" : hours ? hours + " h " + (minutes % 60) + " min" : minutes ? minutes + " min " + Math.floor(value % 60) + " s" : value + " s";
    return h("span", { className: "muted" }, words);
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
