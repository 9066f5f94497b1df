"""Controls in which a person chooses or writes, each with a label that is read out."""

from collections.abc import Iterable, Sequence
from typing import Final

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from ...storage import ROOT_SITE, display_site

AT_THE_RIGHT: Final = {"width": 340, "position": "bottom-end"}


def choose(
    name: str,
    label: str,
    data: Sequence[str],
    value: str | None,
    width: int,
    *,
    clearable: bool = False,
    placeholder: str = "",
) -> dmc.Select:
    """One of many, found by typing."""
    return dmc.Select(
        id=name,
        data=list(data),
        value=value,
        searchable=True,
        allowDeselect=clearable,
        clearable=clearable,
        placeholder=placeholder,
        limit=300,
        size="xs",
        w=width,
        comboboxProps=AT_THE_RIGHT,
        nothingFoundMessage="Nothing of that name",
        **{"aria-label": label},
    )


def switch(name: str, label: str, data: Sequence[str], value: str) -> dmc.SegmentedControl:
    """One of a few, all in sight."""
    return dmc.SegmentedControl(id=name, data=list(data), value=value, size="xs", **{"aria-label": label})


def labelled(words: str, control: Component) -> html.Span:
    """The control with words before it that everybody sees: for choices that do not say what they are about."""
    return html.Span([html.Span(words, className="muted"), control], className="labelled")


def line_input(
    name: str, label: str, value: str, width: int, *, placeholder: str, longest: int | None = None
) -> dmc.TextInput:
    """A line in the words of a small language, taken over when it is complete; of `longest` characters at most."""
    limits = {} if longest is None else {"attributes": {"input": {"maxLength": longest}}}
    return dmc.TextInput(
        id=name,
        value=value,
        placeholder=placeholder,
        debounce=True,
        size="xs",
        w=width,
        className="mono",
        **limits,
        **{"aria-label": label},
    )


def step_input(name: str, step: int | None) -> dmc.NumberInput:
    """A step, or none."""
    return dmc.NumberInput(
        id=name,
        value="" if step is None else step,
        placeholder="step",
        min=0,
        allowDecimal=False,
        debounce=300,
        size="xs",
        w=90,
        **{"aria-label": "Step"},
    )


def with_chosen(names: Sequence[str], *chosen: str) -> list[str]:
    """The names, and what was chosen among them even if it is unknown."""
    return [name for name in dict.fromkeys((*names, *chosen)) if name]


def site_choices(sites: Iterable[str], chosen: str | None = None) -> list[str]:
    """The sites as a person reads them, the chosen one among them even if it is unknown."""
    return with_chosen([display_site(site) for site in sites], "" if chosen is None else display_site(chosen))


def site_of(choice: str | None) -> str | None:
    """The site behind what a person has chosen, None for nothing."""
    return ROOT_SITE if choice == display_site(ROOT_SITE) else choice or None
