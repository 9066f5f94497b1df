"""What a person can choose on the live page, each with a label that is read out."""

from collections.abc import Iterable, Sequence

import dash_mantine_components as dmc
from dash.development.base_component import Component

from ...storage import ROOT_SITE, display_site
from ..address import Address
from ..ids import Live as Id

_AT_THE_RIGHT = {"width": 340, "position": "bottom-end"}


def curve_controls(scalars: Sequence[str], here: Address) -> list[Component]:
    """Which scalar, on which axis."""
    return [
        _choose(Id.scalar, "Scalar", _with(scalars, here.scalar), here.scalar, 180),
        _switch(Id.scale, "Value axis", ["linear", "log"], here.scale),
    ]


def heat_controls(metrics: Sequence[str], sites: Sequence[str], here: Address) -> list[Component]:
    """Which metric in which colours, and which tensor to look into: the keyboard's way to a cell."""
    step = dmc.NumberInput(
        id=Id.step,
        value="" if here.step is None else here.step,
        placeholder="step",
        min=0,
        allowDecimal=False,
        debounce=300,
        size="xs",
        w=90,
        **{"aria-label": "Step"},
    )
    chosen = None if here.site is None else display_site(here.site)
    return [
        _choose(Id.metric, "Metric", _with(metrics, here.metric), here.metric or None, 220),
        _switch(Id.view, "Colours show", ["deviation", "raw"], here.view),
        _choose(Id.site, "Site", site_choices(sites, here.site), chosen, 220, clearable=True, placeholder="site"),
        step,
    ]


def site_choices(sites: Iterable[str], chosen: str | None = None) -> list[str]:
    """The sites as a person reads them, the chosen one among them even if it is unknown."""
    return _with([display_site(site) for site in sites], "" if chosen is None else display_site(chosen))


def site_of(choice: str | None) -> str | None:
    """The site behind what a person has chosen, None for nothing."""
    return ROOT_SITE if choice == display_site(ROOT_SITE) else choice or None


def _with(names: Sequence[str], chosen: str) -> list[str]:
    return list(dict.fromkeys((*names, chosen) if chosen else names))


def _choose(
    name: str,
    label: str,
    data: list[str],
    value: str | None,
    width: int,
    *,
    clearable: bool = False,
    placeholder: str = "",
) -> dmc.Select:
    return dmc.Select(
        id=name,
        data=data,
        value=value,
        searchable=True,
        allowDeselect=clearable,
        clearable=clearable,
        placeholder=placeholder,
        limit=300,
        size="xs",
        w=width,
        comboboxProps=_AT_THE_RIGHT,
        nothingFoundMessage="Nothing of that name",
        **{"aria-label": label},
    )


def _switch(name: str, label: str, data: list[str], value: str) -> dmc.SegmentedControl:
    return dmc.SegmentedControl(id=name, data=data, value=value, size="xs", **{"aria-label": label})
