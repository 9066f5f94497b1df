"""Are places without anything scored as a class? Read from a mask by which one term of a loss leaves them out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from ...storage.percent import percent
from .check_result import CheckResult, broken, held
from .loss_graph import is_packed

UNSELECTED: Final = "unselected_places_are_not_scored"
_CLAIM: Final = "places that one term of a loss leaves out are no examples of a class in another"
_OF_CLASSES: Final = frozenset({"cross_entropy", "nll_loss"})
#: Places that a mask must leave out, and select, before anything is said. Our choice.
_FEWEST_OUT, _FEWEST_IN = 32, 8
#: Share of the selected places that must have the class, so that it is one, and may have it, so that there are others.
_LEAST, _MOST = 0.05, 0.95


def unselected_places_are_not_scored(
    nodes: Sequence[Any], losses: Sequence[tuple[str, torch.Tensor | None, Mapping[str, Any]]]
) -> CheckResult | None:
    """Check losses of class indices that cover all places of a mask by which the same loss selects some elsewhere.

    A detector has an object in few of its cells, and a box and a class there alone. A table of classes is filled with
    something where there is none, mostly zeros. If all places that the mask leaves out have one target, and many of the
    selected ones have that, too, the loss teaches that class for nothing. A class of its own for the background, or
    an index that is ignored, is healthy.

    Args:
        nodes: Those of the graph of the loss.
        losses: Names, targets and options of the loss functions of the step.
    """
    targets = [
        (target.reshape(-1), options)
        for name, target, options in losses
        if name in _OF_CLASSES and target is not None and not target.is_floating_point() and target.dim() > 0
    ]
    if not targets:
        return None
    has_looked = False
    for mask in _masks(nodes):
        selected = mask.reshape(-1)
        for target, options in targets:
            if len(target) != len(selected) or not _is_scored_alike(options):
                continue
            has_looked = True
            told = _compared(selected, target, int(options.get("ignore_index", -100)))
            if told is not None:
                return told
    return held(UNSELECTED, _CLAIM) if has_looked else None


def _is_scored_alike(options: Mapping[str, Any]) -> bool:
    """Return whether all places count alike: a loss by place may be masked later, and classes may have weights."""
    return options.get("weight") is None and options.get("reduction", "mean") != "none"


def _compared(selected: torch.Tensor, target: torch.Tensor, ignored: int) -> CheckResult | None:
    left_out, chosen = target[~selected], target[selected]
    if len(left_out) < _FEWEST_OUT or len(chosen) < _FEWEST_IN or bool((left_out != left_out[0]).any()):
        return None
    filled = int(left_out[0])
    share = float((chosen == filled).double().mean())
    if filled == ignored or filled < 0 or not _LEAST <= share <= _MOST:
        return None
    words = (
        f"a term of the loss leaves out {len(left_out)} of {len(target)} places, and another scores them: all of them "
        f"have class {filled} as target, as {percent(share)} of the places have that are not left out"
    )
    return broken(UNSELECTED, _CLAIM, words, left_out=len(left_out), places=len(target), share=share)


def _masks(nodes: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yield the boolean masks by which values are selected, and those of zeros and ones that multiply values."""
    for node in nodes:
        name = node.name()
        if not name.startswith(("IndexBackward", "MaskedSelectBackward", "MulBackward")) or is_packed(node):
            continue
        try:
            yield from _masks_of(node, name)
        except RuntimeError:  # of an earlier loss of the step, whose `backward()` has freed it
            continue


def _masks_of(node: Any, name: str) -> Iterator[torch.Tensor]:
    if name.startswith("IndexBackward"):
        found = [index for index in node._saved_indices if index is not None]
        yield from (found if len(found) == 1 and found[0].dtype is torch.bool else ())
    elif name.startswith("MaskedSelect"):
        yield node._saved_mask
    else:
        given = [before for before, _ in node.next_functions]
        constant: torch.Tensor | None = None
        if None in given:
            constant = node._saved_self if given[0] is None else node._saved_other
        if constant is not None and constant.dim() > 1:
            is_one, is_zero = torch.eq(constant.detach(), 1), torch.eq(constant.detach(), 0)
            yield from (is_one,) if bool((is_one | is_zero).all()) else ()
