"""A page of the dashboard, and the table of all pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import dash
from dash.development.base_component import Component

from .address import PageAddress, QueryKey, parse
from .queries.reader import Reader

Layout = Callable[[Reader, PageAddress], Component]
Connect = Callable[[dash.Dash, Reader], None]


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Args:
        path: The first part of its URLs, empty for the overview.
        icon: Name of its icon file in `assets`.
        layout: Builds the page of an address; reads as little as possible, callbacks do the rest.
        connect: Registers its callbacks, once.
        needs_run: Whether it is about one run; by default the newest.
        keys: Keys of its addresses besides run, metric, site and step.
    """

    path: str
    title: str
    icon: str
    layout: Layout
    connect: Connect
    needs_run: bool = True
    keys: tuple[QueryKey, ...] = ()


PAGES: Final[dict[str, Page]] = {}


def address_of(pathname: str | None, search: str | None) -> PageAddress:
    """Parse the address in a URL by the keys of its page.

    Raises:
        BadAddress: The query does not follow the grammar.
    """
    known = PAGES.get((pathname or "/").strip("/"))
    return parse(pathname, search, known.keys if known else ())


def page(
    path: str, *, title: str, icon: str, connect: Connect, needs_run: bool = True, keys: Sequence[QueryKey] = ()
) -> Callable[[Layout], Layout]:
    """Add the decorated layout to `PAGES`.

    Raises:
        ValueError: The path is taken.
    """

    def add(layout: Layout) -> Layout:
        if path in PAGES:
            raise ValueError(f"page {path!r} is registered twice; give one of the two another path")
        PAGES[path] = Page(
            path, title=title, icon=icon, layout=layout, connect=connect, needs_run=needs_run, keys=tuple(keys)
        )
        return layout

    return add
