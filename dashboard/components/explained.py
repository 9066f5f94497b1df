"""The two panels about a model that is there already: the loss around its weights, and where it looks."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final

from dash import html
from dash.development.base_component import Component

from ...insight.landscape import Surface
from ...insight.saliency import Explanation
from ..data.explained import KeptSurface
from ..figures.landscape import Height, cuts_figure, landscape_figure, relief_of
from ..figures.saliency import curves_figure, maps_figure, maps_height
from ..theme import Palette
from ..words import count, number, sentence
from .cards import card
from .empty_state import empty_state
from .graph import graph
from .listing import listing
from .notice import notice


def chosen_surface(kept: Sequence[KeptSurface], key: str | None) -> KeptSurface | None:
    """The one that is called so, the newest where none is; None where there are none."""
    return next((one for one in kept if one.key == key), next(iter(kept), None))


def surface_part(kept: Sequence[KeptSurface], key: str | None, height: Height, palette: Palette) -> list[Component]:
    """The loss around the weights: its cards, its contours and two cuts through it."""
    found = chosen_surface(kept, key)
    if found is None:
        return [_no_surface()]
    relief = relief_of(found.surface, height)
    told: list[Component] = []
    if key and found.key != key:
        told.append(notice("The surface that this address names is not there any more; the newest one is shown."))
    if height == "log" and not relief.is_log:
        told.append(html.P("Some losses are zero or less, so that heights are linear.", className="muted"))
    cuts = cuts_figure(found.surface, palette, is_log=relief.is_log)
    contours = graph(
        "landscape-contours",
        "contours of the loss over two directions, with the way of the training",
        480,
        landscape_figure(found.surface, relief, palette),
    )
    beside = graph("landscape-cuts", "the loss along each of the two directions", 480, cuts)
    return [*told, html.Div(_cards(found.surface), className="cards"), html.Div([contours, beside], className="two")]


def _cards(surface: Surface) -> list[html.Div]:
    x, y, lowest = surface.lowest
    gain = surface.center_loss - lowest
    better = f"at ({number(x, 3)}, {number(y, 3)})"
    if gain > 0:
        better += f", {number(gain, 3)} below the weights"
    cards = [
        card("Loss at the weights", number(surface.center_loss), "the star"),
        card("Lowest of the plane", number(lowest), better),
    ]
    if surface.path:
        shown = sum(surface.explained)
        steps = f"steps {surface.path[0].step:,} to {surface.path[-1].step:,}"
        cards.append(card("The way", count(len(surface.path), "step"), steps))
        cards.append(card("Axes show", f"{shown:.0%}", "of the squared length of the way"))
    return cards


def looks_part(
    by_sample: Mapping[str, tuple[Explanation, ...]], sample: str | None, palette: Palette
) -> list[Component]:
    """Where the model looks in one sample: the maps, how the score falls, and what the maps are worth."""
    if not by_sample:
        return [_no_explanation()]
    told: list[Component] = []
    if sample and sample not in by_sample:
        told.append(notice(f"No sample {sample[:40]!r} was explained; sample {next(iter(by_sample))} is shown."))
    found = by_sample.get(sample or "", next(iter(by_sample.values())))
    words = (
        f"{sentence(found[0].target)} has the score {number(found[0].score)}; warm places speak for it, cold against."
    )
    maps = graph(
        "landscape-maps", "the input and one map for every method", maps_height(len(found)), maps_figure(found, palette)
    )
    curves = graph(
        "landscape-curves", "the score as places are taken away and given", 300, curves_figure(found, palette)
    )
    return [*told, html.P(words, className="muted"), maps, _scores(found), curves]


def _scores(found: Sequence[Explanation]) -> Component:
    """Whether each map can be believed, the most faithful first."""
    has_marks = any(one.localisation is not None for one in found)
    columns = ("Method", "Faithfulness", "Deletion", "Insertion", "Moves by at most", *(_POINTED if has_marks else ()))
    ordered = sorted(found, key=lambda one: -one.faithfulness if one.faithfulness == one.faithfulness else 2.0)
    rows = [
        (
            sentence(one.method),
            number(one.faithfulness, 3),
            number(one.deletion.area, 3),
            number(one.insertion.area, 3),
            _share(one.stability.largest),
            *(_pointed(one) if has_marks else ()),
        )
        for one in ordered
    ]
    return listing("scores of the methods", columns, rows, columns[1:])


_POINTED: Final = ("Hits the mark", "Inside the mark", "By chance")


def _pointed(one: Explanation) -> tuple[str, str, str]:
    if one.localisation is None:
        return ("–",) * 3
    where = one.localisation
    return "yes" if where.is_hit else "no", _share(where.energy), _share(where.chance)


def _share(value: float) -> str:
    return f"{value:.1%}" if isfinite(value) else number(value)


def _no_surface() -> Component:
    return empty_state(
        "No landscape yet",
        "Let the run dump its weights with `dump: {subjects: [weight], when: {every: 50}}`, "
        "and draw the loss around them:",
        html.Code("mindscope landscape RUN --loss model.py:loss --along path"),
    )


def _no_explanation() -> Component:
    return empty_state(
        "No explanation yet",
        "Ask where the model looks, and the maps appear here with what they are worth:",
        html.Code("mindscope explain RUN --logits model.py:logits --gradient model.py:gradient --data digits.npz"),
    )
