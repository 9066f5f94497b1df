"""What the calls of a step's modules tell: layers that are left out, networks that are frozen by their second name."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from .check_result import CheckResult, broken

UNCALLED, TWO_NAMES = "alike_layers_are_called", "a_frozen_network_has_one_name"
QUIET = "trained_networks_are_called_with_gradients"
_UNCALLED: Final = "of two layers that are alike, a forward does not call one twice and the other never"
_QUIET: Final = "a network that an optimizer is to train is called with gradients"
_TWO_NAMES: Final = "no network is frozen under one name and meant to be trained under another"
#: Modules whose parts are called by their place, not by name: which of them are called may depend on the data.
_LISTS: Final = (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)


@dataclass(slots=True)
class CallsOfModule:
    """The calls of one module in a step.

    Args:
        taught: Those with gradients enabled.
        flowing: Those of them whose output requires a gradient.
        again: Those of them that were given the very tensor of the call before.
        quiet: Those inside of `torch.no_grad`.
    """

    taught: int = 0
    flowing: int = 0
    again: int = 0
    quiet: int = 0


Calls = Mapping[int, CallsOfModule]
_NONE: Final = CallsOfModule()


def quiet_networks(modules: Mapping[str, torch.nn.Module], calls: Calls) -> Iterator[tuple[str, CheckResult]]:
    """Yield site and result of networks with parameters to train that a step calls inside of `torch.no_grad` only.

    The second pass of a cached gradient may have been left out. Whether a gradient ever reaches them, and whether
    something else writes them, as an average is written, is for others to say.
    """
    found: list[str] = []
    for site, module in modules.items():
        seen, parameters = calls.get(id(module), _NONE), list(module.parameters())
        is_inside = any(not outer or site.startswith(f"{outer}.") for outer in found)
        if is_inside or not seen.quiet or seen.taught or not parameters:
            continue
        if all(one.requires_grad and one.grad is None for one in parameters):
            found.append(site)
            words = f"a step calls {site or 'the model'} {seen.quiet} times, each time without gradients"
            yield site, broken(QUIET, _QUIET, words, subject=site, calls=seen.quiet)


def uncalled_layers(modules: Mapping[str, torch.nn.Module], calls: Calls) -> Iterator[tuple[str, CheckResult]]:
    """Yield site and result of layers that no forward calls while another of their parent's is called twice in each.

    Both have the same class and parameters of the same shapes. Parts of lists are left out: experts, and layers that
    are dropped at random. The number `is_same` says whether the two calls were given the very same tensor, so that one
    of them is of no use.
    """
    for site, parent in modules.items():
        forwards = calls.get(id(parent), _NONE).taught
        if not forwards or isinstance(parent, _LISTS):
            continue
        parts = {name: part for name, part in parent.named_children() if any(True for _ in part.parameters())}
        for name, part in parts.items():
            if any(id(inner) in calls for inner in part.modules()):
                continue
            for other, twin in parts.items():
                seen = calls.get(id(twin), _NONE)
                is_same = seen.again >= forwards
                if not _are_alike(part, twin) or not (is_same or seen.taught == 2 * forwards):
                    continue
                at = f"{site}." if site else ""
                words = f"each forward calls {at}{other} twice{' with the same input' * is_same}, and {at}{name} never"
                told = broken(
                    UNCALLED,
                    _UNCALLED,
                    words,
                    subject=f"{at}{other}",
                    forwards=forwards,
                    is_same=float(is_same),
                )
                yield f"{at}{name}", told
                break


def frozen_by_another_name(
    modules: Mapping[str, torch.nn.Module], calls: Calls, outermost: Collection[int], given_both: Collection[int]
) -> Iterator[tuple[str, CheckResult]]:
    """Yield site and result of frozen networks that a step calls both with gradients and inside `torch.no_grad`.

    A network that follows another one, as the target of a momentum encoder does, is called without gradients; where
    the copy was forgotten, it is the other one. It must have two names in one parent, or be a network of its own that
    is given the same input both ways. A step that calls trained modules without gradients evaluates, and tells
    nothing.

    Args:
        outermost: Ids of networks that are part of no other.
        given_both: Ids of modules that were given one input with gradients and without.
    """
    trained = [module for module in modules.values() if _trains_itself(module)]
    if any(calls.get(id(module), _NONE).quiet for module in trained):
        return
    if not any(calls.get(id(module), _NONE).taught for module in trained):
        return
    for site, module in modules.items():
        seen = calls.get(id(module), _NONE)
        parameters = list(module.parameters())
        is_frozen = bool(parameters) and not any(parameter.requires_grad for parameter in parameters)
        if not (is_frozen and module.training and seen.taught and seen.quiet) or seen.flowing:
            continue
        name = _second_name(modules, site, module)
        if not name and not (id(module) in outermost and id(module) in given_both):
            continue
        named = f", there as {name}, the same object" if name else ""
        words = (
            f"none of the {len(parameters)} parameters of {site or 'the network'} requires a gradient, and the step "
            f"calls it both with gradients and inside torch.no_grad{named}"
        )
        yield site, broken(TWO_NAMES, _TWO_NAMES, words, subject=name, parameters=len(parameters))


def _are_alike(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return one is not other and type(one) is type(other) and shapes_of(one) == shapes_of(other)


def shapes_of(module: torch.nn.Module) -> list[tuple[str, torch.Size]]:
    """Return names and shapes of the module's parameters."""
    return [(name, parameter.shape) for name, parameter in module.named_parameters()]


def _trains_itself(module: torch.nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters(recurse=False))


def _second_name(modules: Mapping[str, torch.nn.Module], site: str, module: torch.nn.Module) -> str:
    """Return another name of the module in its parent; empty if there is none."""
    above, _, own = site.rpartition(".")
    parts: Mapping[str, Any] = modules[above]._modules if above in modules else {}
    at = f"{above}." if above else ""
    return next((f"{at}{name}" for name, part in parts.items() if part is module and name != own), "")
