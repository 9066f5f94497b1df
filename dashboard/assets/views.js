// Named views of the wall of scalars: each is the query of an address, kept in this browser.
"use strict";

(function () {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const mine = (clientside.mindscope = clientside.mindscope || {});
  const none = () => window.dash_clientside.no_update;

  Object.assign(mine, {
    keepView: function (_saved, _forgotten, name, chosen, views, save) {
      const isSaving = window.dash_clientside.callback_context.triggered_id === save;
      const key = isSaving ? (name || "").trim() : chosen;
      if (!key) {
        return [none(), none()];
      }
      const { [key]: _, ...others } = views || {};
      return [isSaving ? { ...others, [key]: window.location.search } : others, ""];
    },

    namesOfViews: (views) => Object.keys(views || {}).sort(),

    openView: (name, views) => (name && views && views[name] ? views[name] : none()),
  });
})();
