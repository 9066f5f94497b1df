// Holds what follows a run while a person points into a picture, selects or chooses, and keeps live pages from jumping.
"use strict";

(function () {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const mine = (clientside.mindscope = clientside.mindscope || {});
  const LOOK_MS = 250;
  const PATIENCE_MS = 10000; // our choice: a pointer that rests this long belongs to nobody who reads
  let ticks = [];
  let movedAt = -Infinity;
  let isPointing = false;
  let isPressed = false;
  let isHeld = false;

  const inside = (event, place) => event.target instanceof Element && Boolean(event.target.closest(place));

  document.addEventListener("pointermove", (event) => {
    isPointing = inside(event, ".js-plotly-plot");
    movedAt = performance.now();
  }, { passive: true });
  document.addEventListener("pointerdown", (event) => (isPressed = inside(event, "#content")));
  ["pointerup", "pointercancel", "blur"].forEach((end) => window.addEventListener(end, () => (isPressed = false)));
  document.documentElement.addEventListener("pointerleave", () => (isPointing = false));

  // Dash knows where what is laid out stands, and throws where it is asked for something else.
  function isLaidOut(id) {
    try {
      return Boolean(window.dash_component_api.getLayout(id));
    } catch {
      return false;
    }
  }

  function isSelecting() {
    const selection = document.getSelection();
    const content = document.getElementById("content");
    const isText = Boolean(selection && !selection.isCollapsed && content && content.contains(selection.anchorNode));
    return isText || isPressed || document.querySelector("#content input[aria-expanded=true]") !== null;
  }

  // What is above the pictures of a run that is being written never gets lower: a card that goes leaves its place.
  function keepPlaces() {
    const isLive = document.querySelector(".status .badge-running") !== null;
    document.querySelectorAll("#content .cards").forEach((cards) => {
      const height = Math.ceil(cards.getBoundingClientRect().height);
      if (isLive && cards.dataset.width !== String(window.innerWidth)) {
        cards.dataset.width = window.innerWidth; // in a window of another width cards have other heights
        cards.style.minHeight = "";
      } else if (isLive && height > (parseFloat(cards.style.minHeight) || 0)) {
        cards.style.minHeight = height + "px";
      }
    });
  }

  function look() {
    const isRead = isPointing && performance.now() - movedAt < PATIENCE_MS;
    const next = isRead || isSelecting();
    if (next !== isHeld) {
      isHeld = next;
      ticks.filter(isLaidOut).forEach((id) => clientside.set_props(id, { max_intervals: isHeld ? 0 : -1 }));
    }
    const isLive = document.querySelector(".status .badge-running") !== null;
    const note = document.getElementById("held");
    const words = isHeld && isLive ? "Updates wait while you look" : "";
    if (note && note.textContent !== words) {
      note.textContent = words;
    }
    keepPlaces();
  }

  Object.assign(mine, {
    holdTicks: function (ids) {
      ticks = ids || [];
      return window.dash_clientside.no_update;
    },
  });
  setInterval(look, LOOK_MS);
})();
