"""The four things that a person asks of ranks first."""

from collections.abc import Sequence
from math import isfinite

from dash import html
from rich.filesize import decimal

from ...components.cards import card
from ...data.ranks import (
    Share,
)
from ...figures.ranks import Pace, skew_s, slowest
from ...words import count, number


def rank_cards(paces: Sequence[Pace], parts: Sequence[Share]) -> html.Div:
    """The four things that a person asks of ranks first."""
    return html.Div([_slowest(paces), _skew(paces), _waiting(paces, parts), _moved(parts)], className="cards")


def _slowest(paces: Sequence[Pace]) -> html.Div:
    last = slowest(paces)
    if last is None:
        return card("Slowest rank", "–", "a rank that is alone waits for nobody")
    return card("Slowest rank", f"rank {last.rank}", f"works {number(last.work_s, 3)} s of a step")


def _skew(paces: Sequence[Pace]) -> html.Div:
    value = f"{number(skew_s(paces), 3)} s" if len(paces) > 1 else "–"
    return card("Skew", value, "between the longest and the shortest work of a step")


def _waiting(paces: Sequence[Pace], parts: Sequence[Share]) -> html.Div:
    if not parts or not paces:
        return card("Waits most", "–", "no communication was recorded")
    most = max(paces, key=lambda pace: pace.wait_s)
    return card("Waits most", f"rank {most.rank}", f"{number(most.wait_s, 3)} s of {number(most.step_s, 3)} s")


def _moved(parts: Sequence[Share]) -> html.Div:
    if not parts:
        return card("Moved in a step", "–", "collectives of torch.distributed are recorded")
    each = sum(part.moved_bytes for part in parts) / len({part.rank for part in parts})
    sites = len({part.site for part in parts})
    return card("Moved in a step", size_words(each), f"by every rank, in {count(sites, 'collective')}")


def size_words(amount: float) -> str:
    """Bytes as a person reads them."""
    return decimal(int(amount)) if isfinite(amount) else "not recorded"
