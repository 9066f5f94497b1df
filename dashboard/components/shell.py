"""What stands around every page: navigation at the left, the colour scheme, the address."""

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ..address import Address
from ..ids import Shell
from ..page import PAGES, Page
from ..words import short_place

_THEME = {
    "primaryColor": "blue",
    "defaultRadius": "md",
    "fontFamily": "var(--font)",
    "fontFamilyMonospace": "var(--mono)",
    "headings": {"fontFamily": "var(--font)"},
    "cursorType": "pointer",
}


def shell(place: str) -> Component:
    """The frame of the application; `place` says which store is looked at."""
    side = html.Nav(
        [
            dcc.Link(
                [html.Span(className="icon icon-brand brand-icon", **{"aria-hidden": "true"}), "mindscope"],
                href="/",
                className="brand",
            ),
            html.Div(id=Shell.navigation, className="nav"),
            html.Div(
                [
                    html.Button(
                        [html.Span(className="icon icon-scheme", **{"aria-hidden": "true"}), "Dark or light"],
                        id=Shell.scheme_button,
                        className="scheme-button",
                        type="button",
                    ),
                    html.Div(short_place(place), className="store-place mono", title=f"store: {place}"),
                ],
                className="nav-foot",
            ),
        ],
        className="side",
        **{"aria-label": "Pages"},
    )
    main = html.Main(
        [
            html.Div(id=Shell.connection, role="status", className="connection"),
            html.Div(id=Shell.banner, role="alert", **{"aria-live": "polite"}),
            html.Div(_opening(), id=Shell.content),
        ],
        className="main",
        id="main",
    )
    return dmc.MantineProvider(
        [
            dcc.Location(id=Shell.url, refresh="callback-nav"),
            dcc.Store(id=Shell.scheme_choice, storage_type="local"),
            dcc.Store(id=Shell.scheme),
            dcc.Store(id=Shell.shown),
            html.A("Skip to the page", href="#main", className="skip"),
            html.Div([side, main], className="app"),
        ],
        id=Shell.provider,
        theme=_THEME,
    )


def _opening() -> html.Div:
    return html.Div([dmc.Skeleton(height=height, radius="md") for height in (34, 92, 280, 360)], className="opening")


def navigation(here: Address) -> list[dcc.Link]:
    """One link for every page of the table, keeping the run that is looked at."""
    return [_link(page, here) for page in PAGES.values()]


def _link(page: Page, here: Address) -> dcc.Link:
    is_here = page.path == here.page
    href = here.to(page.path).href if page.needs_run else f"/{page.path}"
    content = [html.Span(className=f"icon icon-{page.icon}", **{"aria-hidden": "true"}), page.title]
    return dcc.Link(content, href=href, className="nav-link here" if is_here else "nav-link")
