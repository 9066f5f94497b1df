"""Parameter groups: dicts of options around lists of parameters, completed from the optimizer's defaults."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ..tensor import Parameter
from .rate_schedules import Listed, Schedule, rate_at

#: `params`, `lr` and the options of the formula; a dict because users write to it by name, as in PyTorch.
Group = dict[str, Any]

#: Parameters, or groups of them with options of their own.
Params = Iterable[Parameter | Mapping[str, object]]

#: A number, a schedule, or one rate for each step.
Rate = float | Schedule | Sequence[float]


def make_groups(
    params: Params,
    learning_rate: Rate,
    defaults: Mapping[str, object],
) -> list[tuple[Group, Schedule | None]]:
    """Complete groups, each with its schedule when its rate is one.

    Raises:
        ValueError: No parameter at all, one that appears twice, an unknown option.
        TypeError: Something that is neither a parameter nor a group.
    """
    given = list(params)
    if not given:
        raise ValueError("the optimizer expects at least one parameter, got none; pass network.trainable_params()")
    bare = [entry for entry in given if not isinstance(entry, Mapping)]
    if bare and len(bare) < len(given):
        raise TypeError("the optimizer expects either parameters or groups of them, got a mixture of both")
    entries: list[Mapping[str, object]] = [{"params": given}] if bare else [e for e in given if isinstance(e, Mapping)]
    groups = [_make_group(number, entry, learning_rate, defaults) for number, entry in enumerate(entries)]
    _check_unique([group for group, _ in groups])
    return groups


def _make_group(
    number: int,
    entry: Mapping[str, Any],
    learning_rate: Rate,
    defaults: Mapping[str, object],
) -> tuple[Group, Schedule | None]:
    known = ["params", "lr", *defaults]
    for key in entry:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; options are {', '.join(known)}"
            raise ValueError(f"parameter group {number} has no option {key!r}{hint}")
    if "params" not in entry:
        raise ValueError(f"parameter group {number} has no 'params'")
    members = [entry["params"]] if isinstance(entry["params"], Parameter) else list(entry["params"])
    if not members:
        raise ValueError(f"parameter group {number} is empty; leave it out")
    for member in members:
        if not isinstance(member, Parameter):
            raise TypeError(f"the optimizer expects Parameters, got {type(member).__name__} in group {number}")
    rate = entry.get("lr", learning_rate)
    if isinstance(rate, list | tuple):  # MindSpore's dynamic learning rates
        rate = Listed(rate)
    schedule = rate if callable(rate) else None
    options = {key: entry.get(key, value) for key, value in defaults.items()}
    return {"params": members, "lr": rate_at(rate, 0), **options}, schedule


def _check_unique(groups: list[Group]) -> None:
    seen: dict[int, int] = {}
    for number, group in enumerate(groups):
        for parameter in group["params"]:
            if id(parameter) in seen:
                raise ValueError(
                    f"parameter '{parameter.name}' appears in group {seen[id(parameter)]} and again in group {number}; "
                    f"it would be stepped twice"
                )
            seen[id(parameter)] = number
