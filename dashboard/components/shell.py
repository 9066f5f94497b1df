"""The frame of every page: navigation at the left, the colour scheme, the address."""

from collections.abc import Sequence
from typing import Final

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ..address import PageAddress
from ..formatting import short_location
from ..page_registry import PAGES, Page


class ShellIds:
    """Ids of the frame of every page."""

    url: Final = "url"
    provider: Final = "provider"
    scheme: Final = "scheme"
    scheme_choice: Final = "scheme-choice"
    scheme_button: Final = "scheme-button"
    navigation: Final = "navigation"
    content: Final = "content"
    shown: Final = "shown"
    title: Final = "page-title"
    ticks: Final = "ticks"
    held: Final = "held"  # written by assets/hold.js
    banner: Final = "banner"
    connection: Final = "connection"  # written by assets/connection.js


_THEME = {
    "primaryColor": "blue",
    "defaultRadius": "md",
    "fontFamily": "var(--font)",
    "fontFamilyMonospace": "var(--mono)",
    "headings": {"fontFamily": "var(--font)"},
    "cursorType": "pointer",
}


def shell(location: str, ticks: Sequence[str] = ()) -> Component:
    """Build the frame of the application.

    Args:
        location: Names the store.
        ticks: Ids of the intervals by which pages follow what is being written.
    """
    side = html.Nav(
        [
            dcc.Link(
                [
                    html.Span(className="icon icon-brand brand-icon", **{"aria-hidden": "true"}),
                    html.Span("mindscope", className="brand-name"),
                ],
                href="/",
                className="brand",
            ),
            html.Div(id=ShellIds.navigation, className="nav"),
            html.Div(
                [
                    html.Button(
                        [
                            html.Span(className="icon icon-scheme", **{"aria-hidden": "true"}),
                            html.Span("Dark or light", className="scheme-words"),
                        ],
                        id=ShellIds.scheme_button,
                        className="scheme-button",
                        type="button",
                    ),
                    html.Div(short_location(location), className="store-place mono", title=f"store: {location}"),
                ],
                className="nav-foot",
            ),
        ],
        className="side",
        **{"aria-label": "Pages"},
    )
    main = html.Main(
        [
            html.Div(id=ShellIds.connection, role="status", className="connection"),
            html.Div(id=ShellIds.banner, role="alert", **{"aria-live": "polite"}),
            html.Div(_skeleton(), id=ShellIds.content),
            html.Div(id=ShellIds.held, role="status", className="held"),
        ],
        className="main",
        id="main",
    )
    return dmc.MantineProvider(
        [
            dcc.Location(id=ShellIds.url, refresh="callback-nav"),
            dcc.Store(id=ShellIds.scheme_choice, storage_type="local"),
            dcc.Store(id=ShellIds.scheme),
            dcc.Store(id=ShellIds.shown),
            dcc.Store(id=ShellIds.title, data="mindscope"),
            dcc.Store(id=ShellIds.ticks, data=list(ticks)),
            html.A("Skip to the page", href="#main", className="skip"),
            html.Div([side, main], className="app"),
        ],
        id=ShellIds.provider,
        theme=_THEME,
    )


def _skeleton() -> html.Div:
    return html.Div([dmc.Skeleton(height=height, radius="md") for height in (34, 92, 280, 360)], className="opening")


def titled(page: Page | None, run: str, content: Component) -> tuple[Component, str]:
    """Return a page's content under the page's own name, and the title of the browser's tab.

    Args:
        page: None for an address that leads nowhere.
        run: Name of the run that the page is about; empty when it is about all.
    """
    if page is None:
        return content, "mindscope"
    words = " · ".join(word for word in (page.title, run, "mindscope") if word)
    if not page.needs_run:
        return content, words  # its heading is its name already
    return html.Div([html.P(page.title, className="page-kind"), content]), words


def navigation(here: PageAddress) -> list[dcc.Link]:
    """Build one link for every page, keeping the run of the address."""
    return [_link(page, here) for page in PAGES.values()]


def _link(page: Page, here: PageAddress) -> dcc.Link:
    is_here = page.path == here.page
    href = here.to(page.path).href if page.needs_run else f"/{page.path}"
    content = [html.Span(className=f"icon icon-{page.icon}", **{"aria-hidden": "true"}), page.title]
    return dcc.Link(content, href=href, className="nav-link here" if is_here else "nav-link")
