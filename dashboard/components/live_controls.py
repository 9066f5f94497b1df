"""What a person can choose on the live page, each with a label that is read out."""

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash.development.base_component import Component

from ...storage import display_site
from ..address import Address
from ..ids import Live as Id
from .choices import AT_THE_RIGHT, choose, labelled, site_choices, step_input, switch, with_chosen

_MOST_MAPS = 3


def curve_controls(scalars: Sequence[str], scalar: str, scale: str) -> list[Component]:
    """Which scalar, on which axis."""
    return [
        choose(Id.scalar, "Scalar", with_chosen(scalars, scalar), scalar, 180),
        switch(Id.scale, "Value axis", ["linear", "log"], scale),
    ]


def heat_controls(metrics: Sequence[str], maps: Sequence[str], view: str) -> list[Component]:
    """Which maps, in which colours."""
    shown = dmc.MultiSelect(
        id=Id.maps,
        data=with_chosen(metrics, *maps),
        value=list(maps),
        maxValues=_MOST_MAPS,
        searchable=True,
        limit=300,
        size="xs",
        maw=640,
        comboboxProps=AT_THE_RIGHT,
        nothingFoundMessage="Nothing of that name",
        **{"aria-label": "Metrics of the maps"},
    )
    return [shown, labelled("colours", switch(Id.view, "Colours show", ["deviation", "raw"], view))]


def tensor_controls(metrics: Sequence[str], sites: Sequence[str], here: Address) -> list[Component]:
    """Which tensor to look into: the keyboard's way to a cell."""
    chosen = None if here.site is None else display_site(here.site)
    return [
        choose(Id.metric, "Metric", with_chosen(metrics, here.metric), here.metric or None, 220),
        choose(Id.site, "Site", site_choices(sites, here.site), chosen, 220, clearable=True, placeholder="site"),
        step_input(Id.step, here.step),
    ]
