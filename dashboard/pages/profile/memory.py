"""Memory over the steps, at its peak, and inside of a step."""

import dash
from dash import html
from dash.development.base_component import Component

from ....insight.profile import MemoryUse, Profile
from ...components import empty_state, graph
from ...figures.profile import inside_figure, memory_figure, parts_figure, parts_height
from ...theme import Palette
from .ids import HIDDEN


def memory_of(found: Profile, use: MemoryUse, palette: Palette) -> tuple[object, object, object]:
    """Figure, style and what stands below of the memory over the steps."""
    parts = _made_of(found, use, palette)
    if not use.steps:
        advice = "Turn on the subject `memory` in the monitor's configuration."
        return dash.no_update, HIDDEN, [empty_state("No memory recorded here", advice), *parts]
    return memory_figure(use, palette), {"height": "260px"}, parts


def _made_of(found: Profile, use: MemoryUse, palette: Palette) -> list[Component]:
    """What memory is made of where it is highest, and the course of it inside one step."""
    pictures = []
    if use.parts:
        label = "what takes memory at its peak; hatched where it follows from shapes"
        bars = graph("profile-parts", label, parts_height(len(use.parts)), parts_figure(use.parts, palette))
        pictures.append(html.Div([html.H3("At the peak of a step", className="part-title"), bars]))
    if found.profiled:
        looked = max(found.profiled, key=lambda one: one.peak_bytes)
        course = graph("profile-inside", "bytes allocated in the course of a step", 260, inside_figure(looked, palette))
        pictures.append(html.Div([html.H3(f"Inside step {looked.step:,}", className="part-title"), course]))
    return [html.Div(pictures, className="two even" if len(pictures) == 2 else "")] if pictures else []
