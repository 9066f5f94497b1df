"""A page of the dashboard and the table of all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import dash
from dash.development.base_component import Component

from .address import Address
from .data import Reader

Layout = Callable[[Reader, Address], Component]
Connect = Callable[[dash.Dash, Reader], None]


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Args:
        path: The first part of its URLs, empty for the overview.
        icon: Name of its picture in `assets`.
        layout: What it shows at an address; reads as little as it can, callbacks do the rest.
        connect: Registers its callbacks, once.
        needs_run: Whether it is about one run; the newest when the URL names none.
    """

    path: str
    title: str
    icon: str
    layout: Layout
    connect: Connect
    needs_run: bool = True


PAGES: Final[dict[str, Page]] = {}


def page(path: str, *, title: str, icon: str, connect: Connect, needs_run: bool = True) -> Callable[[Layout], Layout]:
    """Adds the decorated layout to `PAGES`.

    Raises:
        ValueError: The path is taken.
    """

    def add(layout: Layout) -> Layout:
        if path in PAGES:
            raise ValueError(f"page {path!r} is registered twice; give one of the two another path")
        PAGES[path] = Page(path, title, icon, layout, connect, needs_run)
        return layout

    return add
