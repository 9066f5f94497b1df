"""The neighbours of a tensor as links, each leading to its own page."""

from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from ...storage import display_site
from ..address import Address
from ..data import Neighbours

#: More links of one kind than this are folded into a word.
_MOST = 24


def around(here: Address, near: Neighbours) -> list[Component]:
    """One line for every kind of neighbour that there is."""
    holder = () if near.around is None else (near.around,)
    kinds = (
        ("Input from", near.before),
        ("Output to", near.after),
        ("Part of", holder),
        ("Holds", near.within),
    )
    lines = [_line(words, sites, here) for words, sites in kinds if sites]
    return lines or [html.P("The structure of the model does not know this site.", className="muted")]


def _line(words: str, sites: Sequence[str], here: Address) -> html.Div:
    links = [
        dcc.Link(display_site(site), href=here.at("", site, here.step).href, className="mono site-link")
        for site in sites[:_MOST]
    ]
    rest = [html.Span(f"and {len(sites) - _MOST:,} more", className="muted")] if len(sites) > _MOST else []
    return html.Div([html.Span(words, className="muted"), *links, *rest], className="around")
