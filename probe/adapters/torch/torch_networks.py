"""Finds the networks that a script trains, by its optimizers and its variables, and names them as the script does.

A script that trains one network is watched as that network. One that trains several is watched as a `Program`, which
only lists them: its sites begin with the names of the script's variables and attributes, `generator.l1`.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, FunctionType, ModuleType
from typing import Final
from weakref import WeakSet

import torch
from torch.optim import Optimizer

from ....garbage import objects_of
from ...frame_variables import keeps_locals
from ...guard import Guard
from .torch_patches import PatchedFunctions, report
from .torch_plain_lists import is_foreign, unlisted_parts
from .torch_variables import TORCH, is_the_scripts, script_frames, variables_of

#: How deep attributes and collections are looked through, and how many objects at most. Our choice: enough for
#: `trainer.agents["left"].actor`.
_DEEPEST, _MOST = 4, 5000
#: Elements of one collection that are looked at; a list of samples has more. Our choice.
_MOST_ELEMENTS: Final = 64


class Program(torch.nn.Module):  # type: ignore[misc]  # torch is untyped where it is not installed
    """The networks of a script that are trained, as one model that only lists its parts.

    A name with dots, such as `agent.actor`, leads through a list of its own.

    Args:
        networks: Those networks, by the names of the script's variables.
        tensors: What a script without networks trains, by the names of its variables.
    """

    def __init__(
        self, networks: Mapping[str, torch.nn.Module], tensors: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        super().__init__()
        self._parameters.update(tensors or {})
        for name, network in networks.items():
            first, _, rest = name.partition(".")
            if not rest or first in networks:  # a part of a network that does not list it has a name of its own
                self.add_module(name.replace(".", "_"), network)
                continue
            inner = {part.partition(".")[2]: found for part, found in networks.items() if part.startswith(f"{first}.")}
            if first not in self._modules:
                self.add_module(first, Program(inner))

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors that no network holds."""
        return dict(self._parameters)

    def take(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Hold these tensors in the place of those of the same names."""
        self._parameters.update(tensors)

    @property
    def training(self) -> bool:
        """Whether any network is in training mode; the script switches them one by one. Tensors always are."""
        networks = self.__dict__.get("_modules", {})
        return not networks or any(network.training for network in networks.values())

    @training.setter
    def training(self, mode: bool) -> None:
        """Leave the networks as the script has set them."""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """What is to be watched.

    Args:
        model: The network that is trained, or a list of several.
        optimizers: Those that will step it; none where the first one to step tells.
        listed: Modules of which the script calls the parts instead of themselves.
        is_called_unseen: Whether the script calls `forward` itself, which no hook sees.
        unseen: Name of a class of a listed module whose `forward` the script calls itself; empty for none.
    """

    model: torch.nn.Module
    optimizers: tuple[Optimizer, ...] = ()
    listed: tuple[torch.nn.Module, ...] = ()
    is_called_unseen: bool = False
    unseen: str = ""


class KnownOptimizers:
    """The optimizers that a script makes, as it makes them.

    Args:
        guard: Takes what fails as one is made.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._made: WeakSet[Optimizer] = WeakSet()
        self._order: dict[int, int] = {}
        _listen.add(self)

    def stop(self) -> None:
        """Listen no longer."""
        _listen.remove(self)

    def made(self, optimizer: Optimizer) -> None:
        """Note an optimizer that was made, or given other parameters."""
        self._made.add(optimizer)
        self._order.setdefault(id(optimizer), len(self._order))

    def __iter__(self) -> Iterator[Optimizer]:
        """Yield those that still exist, in the order in which they were made; of wrapped ones the outer is left out."""
        made = sorted(self._made, key=lambda optimizer: self._order[id(optimizer)])
        wrappers = {id(one) for one in made if isinstance(getattr(one, "optimizer", None), Optimizer)}
        return (one for one in made if id(one) not in wrappers)

    def holds_any_of(self, module: torch.nn.Module) -> bool:
        """Return whether any of them steps a parameter of the module."""
        ids = {id(parameter) for parameter in module.parameters()}
        return any(not ids.isdisjoint(parameter_ids(optimizer)) for optimizer in self)


def parameter_ids(optimizer: Optimizer) -> set[int]:
    """Return the ids of all parameters that the optimizer steps."""
    return set(map(id, held_by((optimizer,))))


def held_by(optimizers: Iterable[Optimizer]) -> list[torch.Tensor]:
    """Return all parameters that these optimizers step."""
    return [parameter for one in optimizers for group in one.param_groups for parameter in group["params"]]


def _announce(original: Callable[..., object]) -> Callable[..., object]:
    def add_param_group(self: Optimizer, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        report(_listen.listeners, "made", self)
        return result

    return add_param_group


_listen: PatchedFunctions[KnownOptimizers] = PatchedFunctions(
    lambda: _listen.put(Optimizer, "add_param_group", _announce)
)


def trained_with(called: torch.nn.Module, optimizers: Iterable[Optimizer]) -> TrainedModel:
    """Return what to watch of a script that has just called this module to train it.

    Args:
        called: The outermost module of the call.
        optimizers: All that the script has made.
    """
    known = tuple(optimizers)
    held = {id(parameter) for one in known for group in one.param_groups for parameter in group["params"]}
    if held <= ids_of(called):
        return TrainedModel(called, _stepping(known, called))
    roots = _roots_of(held, called)
    own = next((name for name, module in roots.items() if any(part is called for part in module.modules())), None)
    if own is None:
        own = _unused(_names_in_sight().get(id(called), type(called).__name__.lower()), roots)
        roots = {own: called, **roots}
    reached = set[int]().union(*(ids_of(module) for module in roots.values())) & held
    inner = _smallest(roots[own], called, reached & ids_of(roots[own]))
    roots[own] = inner
    model = inner if len(roots) == 1 else Program(roots)
    listed = () if inner is called else (inner,)
    return TrainedModel(model, _stepping(known, model), listed, unseen=_called_directly(inner) if listed else "")


def _called_directly(module: torch.nn.Module) -> str:
    """Return the class of the module if its `forward` is running now and was not called by torch; else nothing."""
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller = frame.f_back
        if code is not None and frame.f_code is code and caller is not None:
            return "" if caller.f_code.co_filename.startswith(TORCH) else type(module).__name__
        frame = caller
    return ""


def trained_in_sight(optimizers: Iterable[Optimizer]) -> TrainedModel | None:
    """Return what to watch of a script of which no trained module was seen to be called; None where none is in sight.

    Such a script calls `forward` methods themselves, which no hook sees.
    """
    known = tuple(optimizers)
    held = set[int]().union(*map(parameter_ids, known))
    if not held:
        return None
    roots = _roots_of(held)
    if not roots:
        return None
    model = next(iter(roots.values())) if len(roots) == 1 else Program(roots)
    return TrainedModel(model, _stepping(known, model), is_called_unseen=True)


def _roots_of(held: set[int], called: torch.nn.Module | None = None) -> dict[str, torch.nn.Module]:
    """Return the networks in sight that hold these parameters, and others where not all variables may be read."""
    roots = {name: module for name, module in networks_in_sight().items() if not held.isdisjoint(ids_of(module))}
    missing = held.difference(*(ids_of(module) for module in roots.values()))
    if missing and any(map(keeps_locals, script_frames())):
        others = networks_holding(missing)
        roots.update({_unused(name, roots): module for name, module in others.items()})
    return _each_once(roots, called)


def _each_once(roots: Mapping[str, torch.nn.Module], called: torch.nn.Module | None) -> dict[str, torch.nn.Module]:
    """Return the networks without those that have the parameters of another one, as `torch.jit` has them in common.

    Of such networks the one that is called stays, else what `torch.jit` has made.
    """

    def rank(name: str) -> tuple[bool, bool]:
        return roots[name] is not called, not isinstance(roots[name], torch.jit.ScriptModule)

    chosen: dict[frozenset[int], str] = {}
    for name in sorted(roots, key=rank):
        chosen.setdefault(frozenset(ids_of(roots[name])), name)
    return {name: roots[name] for name in roots if name in chosen.values()}


def ids_of(module: torch.nn.Module) -> set[int]:
    """Return the ids of the module's parameters."""
    return {id(parameter) for parameter in module.parameters()}


def _stepping(optimizers: Sequence[Optimizer], model: torch.nn.Module) -> tuple[Optimizer, ...]:
    """Return the optimizers of the model if there are several; a single one is found as it steps."""
    mine = ids_of(model)
    several = tuple(one for one in optimizers if not mine.isdisjoint(parameter_ids(one)))
    return several if len(several) > 1 else ()


def _smallest(root: torch.nn.Module, called: torch.nn.Module, wanted: set[int]) -> torch.nn.Module:
    """Return the innermost module of the root that holds the called one and these parameters."""
    found = root
    while found is not called:
        inside = (part for part in found.children() if any(module is called for module in part.modules()))
        inner = next((part for part in inside if wanted <= ids_of(part)), None)
        if inner is None:
            break
        found = inner
    return found


def networks_in_sight() -> dict[str, torch.nn.Module]:
    """Return the outermost modules that the running script's variables lead to, by the names that lead there."""
    found: dict[str, torch.nn.Module] = {}
    for frame in script_frames():
        _look_through(variables_of(frame), found)
    inside = {id(part) for module in found.values() for part in module.modules() if part is not module}
    names: dict[int, str] = {}
    for name, module in found.items():
        names.setdefault(id(module), name)
    return {name: found[name] for name in names.values() if id(found[name]) not in inside}


def tensors_in_sight(ids: set[int]) -> dict[str, torch.Tensor]:
    """Return the tensors with these ids that the script's variables at the level of a module lead to, by name.

    Objects, lists and dictionaries are looked through as for networks; no variables of running functions are read.
    """
    found: dict[str, torch.Tensor] = {}
    for frame in script_frames():
        if frame.f_code.co_filename == frame.f_globals.get("__file__") and is_the_scripts(frame):
            for name, value in _leads(frame.f_globals):
                if isinstance(value, torch.Tensor) and id(value) in ids:
                    found.setdefault(name, value)
    return found


def names_of_tensors(ids: set[int]) -> dict[int, list[str]]:
    """Return all names under which variables lead to the tensors with these ids, those of running functions too."""
    found: dict[int, list[str]] = {}
    for frame in script_frames():
        for name, value in _leads(variables_of(frame)):
            if isinstance(value, torch.Tensor) and id(value) in ids:
                found.setdefault(id(value), []).append(name)
    return found


def networks_holding(ids: set[int]) -> dict[str, torch.nn.Module]:
    """Return the outermost modules of the process that hold any of these parameters.

    They have the names of the script's variables, and that of their class where none may be read or leads to them.
    """
    objects = objects_of(torch.nn.Module)
    held = [one for one in objects if type(one) is not Program and not ids.isdisjoint(_ids_if_any(one))]
    names = _names_in_sight()
    found: dict[str, torch.nn.Module] = {}
    for module in outermost(held):
        for name, part in _callable(names.get(id(module), type(module).__name__.lower()), module, ids):
            found[_unused(name, found)] = part
    return found


def outermost(modules: Sequence[torch.nn.Module]) -> list[torch.nn.Module]:
    """Return those of the modules that are part of no other one of them."""
    inside = {id(part) for module in modules for part in module.modules() if part is not module}
    return [module for module in modules if id(module) not in inside]


def names_of(networks: Iterable[torch.nn.Module], sites: Mapping[str, torch.nn.Module]) -> dict[int, str]:
    """Return a name for each network, by id: its site, its variable, or its class."""
    known = {**_names_in_sight(), **{id(module): site for site, module in reversed(list(sites.items())) if site}}
    return {id(one): known.get(id(one), type(one).__name__.lower()) for one in networks}


def _names_in_sight() -> dict[int, str]:
    """Return what the running script's variables call the networks that they lead to, by id.

    Of the variables of functions, those that would call any network so are left out.
    """
    named: dict[str, torch.nn.Module] = {}
    for frame in script_frames():
        inside: dict[str, torch.nn.Module] = {}
        is_function = frame.f_code.co_name != "<module>"
        _look_through(variables_of(frame), inside)
        for name, module in inside.items():
            if not (is_function and name in _ANY_NETWORK):
                named.setdefault(name, module)
    return {id(module): name for name, module in reversed(named.items())}


def _callable(name: str, module: torch.nn.Module, ids: set[int]) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the module, or those parts of a list of modules that hold any of these parameters."""
    if isinstance(module, torch.nn.ModuleList | torch.nn.ModuleDict):
        for key, part in module.named_children():
            if not ids.isdisjoint(ids_of(part)):
                yield from _callable(f"{name}.{key}", part, ids)
    else:
        yield name, module


def kind_of(model: torch.nn.Module) -> str:
    """Return the class of the model for people; of a list of ours the names of its networks."""
    if isinstance(model, Program):
        return ", ".join([*dict(model.named_children()), *model.tensors])
    return type(model).__name__


def _ids_if_any(module: torch.nn.Module) -> set[int]:
    """Return the ids of its parameters; none of a module that is being made, or unlike torch's."""
    try:
        return ids_of(module)
    except Exception:  # noqa: BLE001  any module of the process may be met here
        return set()


def _look_through(variables: Mapping[str, object], found: dict[str, torch.nn.Module]) -> None:
    """Add the modules that these variables lead to, nearer ones first."""
    for name, value in _leads(variables):
        if issubclass(type(value), torch.nn.Module) and type(value) is not Program:
            found.setdefault(name, value)


def _leads(variables: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield modules and tensors that these variables lead to, nearer ones first, with the names that lead there."""
    waiting = deque((name, value, 0) for name, value in variables.items() if not name.startswith("__"))
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        name, value, depth = waiting.popleft()
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            yield name, value
        if id(value) in seen or issubclass(kind, _WITHOUT_PARTS):
            continue
        seen.add(id(value))
        if issubclass(kind, torch.nn.Module):
            yield name, value
            if kind is not Program and depth < _DEEPEST:
                waiting.extend((inner, part, depth + 1) for inner, part in unlisted_parts(name, value))
        elif depth < _DEEPEST:
            waiting.extend((inner, part, depth + 1) for inner, part in _parts(name, value))


#: What functions call a network that may be any.
_ANY_NETWORK: Final = frozenset({"model", "net", "network", "module", "nn", "m"})
#: What holds no network.
_WITHOUT_PARTS: Final = (str, bytes, int, float, bool, type(None), torch.Tensor, type, ModuleType, FunctionType)


def _parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield name and value of what an object, a dictionary or a short list holds."""
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        items = dict.items(value) if len(value) <= _MOST_ELEMENTS else ()
    elif isinstance(value, list | tuple):
        items = enumerate(value) if len(value) <= _MOST_ELEMENTS else ()
    elif not is_foreign(value):
        held = getattr(value, "__dict__", None)
        items = held.items() if isinstance(held, dict) else ()
    prefix = "" if name == "self" else f"{name}."
    for key, part in items:
        yield f"{prefix}{key}", part


def _unused(name: str, taken: Mapping[str, object]) -> str:
    """Return the name, with a number where it is taken."""
    return next(one for one in (name, *(f"{name}{number}" for number in range(2, 99))) if one not in taken)
