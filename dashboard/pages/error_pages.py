"""The pages for invalid addresses: the reason, and links to valid ones."""

from difflib import get_close_matches

from dash import dcc, html
from dash.development.base_component import Component

from ..address import PageAddress
from ..components.page_parts import empty_state
from ..page_registry import PAGES
from ..queries.reader import Reader


def unknown_page(path: str) -> Component:
    """Build the page for an unknown path, with links to the nearest pages."""
    near = get_close_matches(path, [name for name in PAGES if name], n=3, cutoff=0.3)
    links = [(PAGES[name].title, f"/{name}") for name in near] or [("All runs", "/")]
    return _page(f"No page {_shortened(path)!r}", "This dashboard has no page of that name. Nearest matches:", links)


def unknown_run(reader: Reader, address: PageAddress) -> Component:
    """Build the page for an unknown run, with the nearest names, else the newest runs."""
    runs = reader.runs()
    if not runs and not address.run:
        return html.Section(
            empty_state(
                "No runs yet", "This page needs a run. Start one and it appears by itself:", html.Code("mindscope demo")
            ),
            className="panel",
        )
    names = {name: run.id for run in reversed(runs) for name in (run.id, run.name) if name}
    near = list(dict.fromkeys(names[name] for name in get_close_matches(address.run, list(names), n=5, cutoff=0.4)))
    chosen = near[:3] or [run.id for run in runs[:3]]
    titles = {run.id: f"{run.name or run.id} · {run.id}" for run in runs}
    links = [(titles[run], PageAddress(address.page, run=run).href) for run in chosen]
    words = "Nearest matches:" if near else "Newest runs:"
    return _page(
        f"No run {_shortened(address.run)!r}", f"No run of this store has this name, or several do. {words}", links
    )


def bad_address(reason: str, page: str) -> Component:
    """Build the page for a query that cannot be parsed."""
    return _page(
        "This address cannot be read", reason, [("This page without the query", f"/{page}"), ("All runs", "/")]
    )


def unreadable_store(reason: str) -> Component:
    """Build the page for a store that cannot be read at the moment."""
    advice = "Reload the page to try again; `mindscope doctor` checks the store."
    return html.Section(empty_state("The store cannot be read", reason, advice, icon="trouble"), className="panel")


def _page(title: str, words: str, links: list[tuple[str, str]]) -> html.Section:
    ways = html.Span([dcc.Link(text, href=href, className="button") for text, href in links], className="ways")
    return html.Section(empty_state(title, words, ways), className="panel")


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"
