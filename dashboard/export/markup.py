"""Components as plain HTML: what a page says without a server behind it."""

from html import escape
from typing import Final

import plotly.io
from dash import dcc, html
from dash.development.base_component import Component

from ..components.graph import CONFIG

_ATTRIBUTES: Final = {"className": "class", "title": "title", "role": "role", "tabIndex": "tabindex"}
_VOID: Final = frozenset({"Br", "Hr", "Img"})
_HTML: Final = frozenset(vars(html))


def markup(part: object) -> str:
    """The HTML of components, text and lists of them; text is escaped.

    A figure is drawn by the plotly.js of the page around it. Links become text, for there is nothing to lead to;
    buttons and controls are left out.
    """
    if part is None:
        return ""
    if isinstance(part, list | tuple):
        return "".join(markup(one) for one in part)
    if not isinstance(part, Component):
        return escape(str(part))
    if isinstance(part, dcc.Graph):
        return figure_markup(part.figure, (getattr(part, "style", None) or {}).get("height"))
    children = markup(getattr(part, "children", None))
    if isinstance(part, dcc.Link | html.A):
        if "button" in (getattr(part, "className", None) or ""):
            return ""
        return f"<span{_attributes(part)}>{children}</span>"
    name = type(part).__name__
    if type(part).__module__.startswith("dash.html") and name in _HTML:
        tag = name.lower()
        return f"<{tag}{_attributes(part)}>" + ("" if name in _VOID else f"{children}</{tag}>")
    return ""


def figure_markup(figure: object, height: str | None = None) -> str:
    """The figure as a place on the page and the script that draws it there."""
    drawn: str = plotly.io.to_html(
        figure,
        config=CONFIG,
        include_plotlyjs=False,
        full_html=False,
        validate=False,
        default_height=height or "400px",
    )
    return drawn


def _attributes(part: Component) -> str:
    said = part.to_plotly_json()["props"]
    pairs = [(name, said[key]) for key, name in _ATTRIBUTES.items() if said.get(key) is not None]
    pairs += [(key, value) for key, value in said.items() if key.startswith("aria-")]
    style = said.get("style")
    if style:
        pairs.append(("style", "; ".join(f"{_dashed(name)}: {value}" for name, value in style.items())))
    return "".join(f' {name}="{escape(str(value))}"' for name, value in pairs)


def _dashed(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
