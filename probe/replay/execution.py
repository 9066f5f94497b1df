"""A module that can be computed again: with other weights and inputs, in the dtype that these have."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from ...storage import display_site
from ..errors import NotReplayable
from .recorded import Arrays

_STEP = re.compile(r"\[([^\]]*)\]")


class Execution(Protocol):
    """One module of one framework."""

    def outputs(self, weights: Arrays, inputs: Arrays, *, seed: int = 0) -> dict[str, NDArray[Any]]:
        """What it makes of them, by place in the output, the first under the empty one; draws are those of the seed."""


def check_weights(site: str, needed: Mapping[str, tuple[int, ...]], weights: Arrays) -> None:
    """Nothing, if every parameter was recorded in its shape.

    Args:
        needed: The shapes of the module's parameters.

    Raises:
        NotReplayable: The first that was not.
    """
    name = display_site(site)
    for parameter, shape in needed.items():
        found = weights.get(parameter)
        if found is None:
            raise NotReplayable(
                f"the weight {parameter!r} of {name!r} was not dumped; dump: {{sites: ['{name}', '{name}.*'], "
                f"subjects: [input, activation, weight]}}, and hand over the module of the run"
            )
        if tuple(found.shape) != tuple(shape):
            raise NotReplayable(
                f"the weight {parameter!r} of {name!r} was recorded in shape {found.shape}, the module has {shape}; "
                f"make it with the options of the run"
            )


def arguments(
    inputs: Arrays, tensor: Callable[[NDArray[Any]], Any]
) -> tuple[list[Any], dict[str, Any]]:  # Any: a framework's tensors, nested as they were
    """Positional and keyword arguments as the module was called with; what was no tensor is None among the former."""
    tree: dict[str, Any] = {}
    for path, array in inputs.items():
        *outer, last = _STEP.findall(path)
        inside = tree
        for key in outer:
            inside = inside.setdefault(key, {})
        inside[last] = tensor(array)
    nested = {key: _nested(value) for key, value in tree.items()}
    return _in_order(nested), {key: value for key, value in nested.items() if not key.isdigit()}


def _nested(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _nested(one) for key, one in value.items()}
    return tuple(_in_order(inner)) if all(key.isdigit() for key in inner) else inner


def _in_order(values: Mapping[str, Any]) -> list[Any]:
    places = [int(key) for key in values if key.isdigit()]
    return [values.get(str(place)) for place in range(max(places, default=-1) + 1)]
