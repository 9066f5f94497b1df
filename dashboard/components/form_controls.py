"""Input controls, each with a label for screen readers."""

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
    """Build a searchable control to choose one of many."""
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
        nothingFoundMessage="No match",
        **{"aria-label": label},
    )


def switch(name: str, label: str, data: Sequence[str], value: str) -> dmc.SegmentedControl:
    """Build a control that shows all of a few choices."""
    return dmc.SegmentedControl(id=name, data=list(data), value=value, size="xs", **{"aria-label": label})


def labelled(words: str, control: Component) -> html.Span:
    """Put a visible label before a control."""
    return html.Span([html.Span(words, className="muted"), control], className="labelled")


def line_input(
    name: str, label: str, value: str, width: int, *, placeholder: str, longest: int | None = None
) -> dmc.TextInput:
    """Build an input for a line of a small language, accepted on Enter; of `longest` characters at most."""
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
    """Build an input for a step, which may be empty."""
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
    """Return the names and what was chosen among them, even if it is unknown."""
    return [name for name in dict.fromkeys((*names, *chosen)) if name]


def site_choices(sites: Iterable[str], chosen: str | None = None) -> list[str]:
    """Return the sites as they are shown, and the chosen one even if it is unknown."""
    return with_chosen([display_site(site) for site in sites], "" if chosen is None else display_site(chosen))


def site_of(choice: str | None) -> str | None:
    """Return the site behind a choice, None for an empty one."""
    return ROOT_SITE if choice == display_site(ROOT_SITE) else choice or None
