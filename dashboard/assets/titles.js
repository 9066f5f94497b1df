// The title of the browser's tab, and the page's own place in a navigation that is wider than the screen.
"use strict";

(function () {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const mine = (clientside.mindscope = clientside.mindscope || {});

  function showHere() {
    const here = document.querySelector(".nav-link.here");
    const line = here && here.parentElement;
    if (line && line.scrollWidth > line.clientWidth) {
      line.scrollLeft = here.offsetLeft - line.offsetLeft - (line.clientWidth - here.offsetWidth) / 2;
    }
  }

  Object.assign(mine, {
    titleTab: function (words) {
      document.title = words || "mindscope";
      setTimeout(showHere); // the navigation of the same answer is drawn after this
      return window.dash_clientside.no_update;
    },
  });
})();
