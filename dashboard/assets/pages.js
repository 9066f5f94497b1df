// Clicks into pictures that choose something on their page.
"use strict";

(function () {
  const none = () => window.dash_clientside.no_update;
  const clicked = (click) => click && click.points && click.points[0];

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    mindscope_pages: {
      openModule: function (click) {
        const site = clicked(click) && clicked(click).customdata;
        return typeof site === "string" ? site || "(model)" : none();
      },

      openRank: function (click) {
        const row = clicked(click) && clicked(click).y;
        return typeof row === "string" ? row.replace("rank ", "") : none();
      },
    },
  });
})();
