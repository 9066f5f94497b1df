"""Networks that a model keeps in a plain list, so that it knows neither them nor their parameters."""

from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Final

import torch

#: Variables of a frame that are looked at, and modules of a model. Our choice.
_MOST: Final = 200
#: Packages whose objects hold no network of the script in an attribute.
_FOREIGN: Final = frozenset({"torch", "numpy", "builtins", "logging", "argparse", "pathlib", "mindscope"})


def is_foreign(value: object) -> bool:
    """Return whether an object is of a package that holds no network of the script."""
    return type(value).__module__.partition(".")[0] in _FOREIGN


def unlisted_parts(name: str, module: torch.nn.Module) -> Iterator[tuple[str, Collection[object]]]:
    """Yield the collections that a module of the script's own holds; torch does not look for modules there."""
    if not is_foreign(module):
        for key, part in vars(module).items():
            if isinstance(part, dict | list | tuple) and part and not key.startswith("_"):
                yield (key if name == "self" else f"{name}.{key}"), part


def words_of_plain_lists(trace: TracebackType | None) -> str:
    """Return what is kept in plain lists by the models that the frames of a traceback hold; empty if nothing is."""
    return "; ".join(dict.fromkeys(words for model in _models(trace) for words in _plain_lists(model)))


def _models(trace: TracebackType | None) -> Iterator[torch.nn.Module]:
    """Yield the models among the variables of the frames, the innermost last, each once."""
    seen: set[int] = set()
    while trace is not None:
        for value in list(trace.tb_frame.f_locals.values())[:_MOST]:
            if isinstance(value, torch.nn.Module) and id(value) not in seen:
                seen.add(id(value))
                yield value
        trace = trace.tb_next


def _plain_lists(model: torch.nn.Module) -> Iterator[str]:
    for _, module in zip(range(_MOST), model.modules(), strict=False):
        for name, value in unlisted_parts("self", module):
            kept = value.values() if isinstance(value, dict) else value
            networks = [one for one in kept if isinstance(one, torch.nn.Module)]
            count = sum(len(list(network.parameters())) for network in networks)
            if networks and count:
                made = "a ModuleDict" if isinstance(value, dict) else "a ModuleList"
                yield (
                    f"{type(module).__name__}.{name} is a {type(value).__name__} of {len(networks)} modules, so the "
                    f"model has none of their {count} parameters; make it {made}"
                )
