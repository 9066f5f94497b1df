"""Does a part of a program see tokens that the program is to predict? Asked where the loop calls the parts itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from .bounded_outputs import NetworkCall
from .check_result import CheckResult, broken, held, undecided
from .model_call import ModelCall
from .model_probe import ModelProbe, NotAnswered
from .sequence_targets import CAUSAL, by_position
from .step_seen import StepSeen

_CLAIM: Final = "no output depends on input at a later position, which is what the program predicts"
#: Positions by which a part must look ahead: one may only undo a shift that the program has made. Nodes of a graph that
#: are visited. Our choice.
_AHEAD, _MOST_NODES = 2, 5000


def checks_of_parts(
    calls: Mapping[str, ModelCall],
    modules: Mapping[str, torch.nn.Module],
    results: Mapping[str, Sequence[CheckResult]],
    seen: StepSeen,
) -> Iterator[tuple[str, CheckResult]]:
    """Yield site and result of the parts that lie between tokens and a loss that compares with the next ones.

    Args:
        calls: The first training call of each part.
        modules: The parts, by site.
        results: What calls of their copies have told.
        seen: The step.
    """
    heads = [site for site in dict.fromkeys(call.site for call in seen.networks) if seen.losses_of(site)]
    for tokens in token_parts(results):
        first = next(iter(calls[tokens].tensors().values()))
        for site in parts_between(tokens, seen.networks, heads):
            given = next(call.given for call in seen.networks if call.site == site)
            if site in calls and given is not None and has_positions(given, first):
                try:
                    result = part_sees_no_later_tokens(ModelProbe(modules[site], calls[site]), given, tokens)
                except NotAnswered:
                    continue
                if result is not None:
                    yield site, result


def without_claims_of_the_whole(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the results without what a first part cannot know: that nothing behind it sees later tokens."""
    return [result for result in results if result.check != CAUSAL or result.outcome != "held"]


def token_parts(results: Mapping[str, Sequence[CheckResult]]) -> list[str]:
    """Return the parts that get tokens of which the targets are the next ones."""
    return [site for site, found in results.items() if any(each.check == CAUSAL for each in found)]


def parts_between(tokens: str, calls: Sequence[NetworkCall], heads: Sequence[str]) -> Iterator[str]:
    """Yield the parts whose answers, as they are, lead to what a loss compares, and whose input comes from the tokens.

    Args:
        tokens: The part that gets the tokens.
        calls: All calls of the step.
        heads: Parts whose answers a loss compares with targets.
    """
    by_site: dict[str, list[NetworkCall]] = {}
    for call in calls:
        by_site.setdefault(call.site, []).append(call)
    single = {site: found[0] for site, found in by_site.items() if len(found) == 1}
    if tokens not in single or not single[tokens].outputs:
        return
    source, waiting = single[tokens].outputs[0], [single[head] for head in heads if head in single]
    while waiting:
        given = waiting.pop().given
        before = [call for call in single.values() if any(output is given for output in call.outputs)]
        for call in before:
            if call.site != tokens and call.given is not None and _is_made_of(call.given, source):
                waiting.append(call)
                yield call.site


def part_sees_no_later_tokens(probe: ModelProbe, given: torch.Tensor, tokens: str) -> CheckResult | None:
    """Check that the answer of a part at each position does not depend on its input two positions later and more.

    Args:
        given: The first input `(samples, positions, features)` of its call.
        tokens: Name of the part that made it of tokens.

    Returns:
        None where the part has no answer with these positions.
    """
    batch, length = given.shape[:2]
    name = next((key for key, tensor in probe.call.tensors().items() if tensor.shape == given.shape), None)
    if name is None or by_position(probe.base[0], batch, length) is None:
        return None
    tensor = probe.call.tensors()[name]
    for position in sorted({length // 2, length - 1}):
        changed = tensor.clone()
        changed[:, position] = tensor.roll(1, 0)[:, position]
        try:
            rows = by_position(probe.moves(probe.answers({name: changed}))[0], batch, length)
        except NotAnswered as reason:
            return undecided(CAUSAL, _CLAIM, str(reason), subject=name)
        felt = [] if rows is None else (rows > probe.limit(0)).nonzero().reshape(-1).tolist()
        if rows is not None and felt and felt[0] <= position - _AHEAD:
            words = (
                f"the targets are the tokens of {tokens} one position later, and changing {name} "
                f"{tuple(given.shape)}, which is made of them, at position {position} moved the output at position "
                f"{felt[0]} by {float(rows[felt[0]]):.3g}"
            )
            numbers = {"changed": position, "first_output": felt[0], "positions": length}
            return broken(CAUSAL, _CLAIM, words, subject=name, difference=float(rows[felt[0]]), **numbers)
    return held(CAUSAL, _CLAIM, subject=name, positions=length)


def has_positions(given: torch.Tensor | None, tokens: torch.Tensor) -> bool:
    """Return whether the first axes of an input `(samples, positions, features)` are those of the tokens."""
    is_clear = tokens.dim() == 2 and 2 <= tokens.shape[0] != tokens.shape[1] > _AHEAD
    return is_clear and given is not None and given.dim() == 3 and given.shape[:2] == tokens.shape


def _is_made_of(tensor: torch.Tensor, source: torch.Tensor) -> bool:
    """Return whether the graph of the tensor leads to the one that made the source."""
    waiting: list[Any] = [tensor.grad_fn]
    seen: set[Any] = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is not None and node not in seen:
            if node is source.grad_fn:
                return True
            seen.add(node)
            waiting += [before for before, _ in node.next_functions]
    return False
