"""Hears of networks of which `load_state_dict` has loaded nothing: where names may differ, it says so to nobody."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch

from ...aside import is_aside
from ...checks.check_result import CheckResult, broken
from ...guard import Guard
from .torch_patches import PatchedFunctions, report

CHECK: Final = "something_is_loaded"
_CLAIM = "load_state_dict finds tensors of {name} among those that it is given"


class LoadedStates:
    """Listens to `load_state_dict` for as long as it is not stopped."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        _loads.add(self)

    def stop(self) -> None:
        """Listen no more."""
        _loads.remove(self)

    def state_loaded(self, module: torch.nn.Module, given: object, result: Any) -> None:
        """Note the module if it has found none of its names; forget it if it has found some by now."""
        missing, unexpected = getattr(result, "missing_keys", ()), getattr(result, "unexpected_keys", ())
        _without.pop(module, None)
        if missing and unexpected and isinstance(given, Mapping) and len(missing) >= len(module.state_dict()):
            _without[module] = (str(missing[0]), str(unexpected[0]), len(given))


class StateIsLoaded:
    """Calls a function when one of these modules has loaded a state.

    Args:
        modules: Which ones; of others nothing is told.
    """

    def __init__(self, modules: Iterable[torch.nn.Module], call: Callable[[], None], guard: Guard) -> None:
        self.guard = guard
        self._modules, self._call = {id(module) for module in modules}, call
        _loads.add(self)

    def state_loaded(self, module: torch.nn.Module, _given: object, _result: Any) -> None:
        """Note that a module has loaded a state."""
        if id(module) in self._modules and not is_aside():
            self._call()

    def remove(self) -> None:
        """Listen no more."""
        _loads.remove(self)


def of_which_nothing_was_loaded(name_of: Callable[[torch.nn.Module], str]) -> Iterator[CheckResult]:
    """Yield a result for each network that has found none of its names in what it was given last; once.

    Args:
        name_of: Returns the name of a network.
    """
    for module, (expected, given, count) in [*_without.items()]:
        del _without[module]
        name = name_of(module)
        words = (
            f"none of {count} tensors was loaded: they are named like {given!r}, and {name} has names like {expected!r}"
        )
        yield broken(CHECK, _CLAIM.format(name=name), words, subject=name, given=float(count))


def _announced(original: Callable[..., Any]) -> Callable[..., Any]:
    def load_state_dict(self: torch.nn.Module, state_dict: Any, *arguments: Any, **options: Any) -> Any:
        result = original(self, state_dict, *arguments, **options)
        report(_loads.awake, "state_loaded", self, state_dict, result)
        return result

    return load_state_dict


#: Modules that have found none of their names: one of theirs, one of those that they were given, and how many.
_without: WeakKeyDictionary[torch.nn.Module, tuple[str, str, int]] = WeakKeyDictionary()
_loads: PatchedFunctions[LoadedStates | StateIsLoaded] = PatchedFunctions(
    lambda: _loads.put(torch.nn.Module, "load_state_dict", _announced)
)
