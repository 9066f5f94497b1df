"""Do scores of attention know where the query stands and where the key does? Tried with one token at all positions."""

from collections.abc import Iterator
from typing import Final

import torch

from .check_result import CheckResult, broken, held
from .copy_flow import Flow, FlowCall, flow_or_none
from .model_probe import ModelProbe

BOTH: Final = "scores_know_both_positions"
_CLAIM: Final = "scores of attention know the position of the query and of the key, or of neither"
_ATTENTION: Final = "scaled_dot_product_attention"
_SOFTMAXES: Final = frozenset({"softmax", "_softmax", "softmax_"})
#: Shortest sequence that is tried, and longest: scores are a table of all pairs. Rows of the batch that are asked for.
_SHORTEST, _LONGEST = 6, 1024
_ROWS: Final = 2
#: Relative to the size of the scores: what rounding may do, and from where on they differ. Our choice.
_SAME, _OTHER = 1e-4, 1e-2
#: Scores that stand for minus infinity.
_MASKED: Final = -1e4


def scores_know_both_positions(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check self-attention over the positions of an input, all of which are given the same token.

    What is left in the scores is what the model knows of positions. Positions that are added to tokens, and relative
    ones, make scores that differ both along the queries and along the keys. If they differ along one axis alone, the
    encoding of the other was forgotten, as where only queries are rotated (Su et al. 2021, arXiv:2104.09864, eq. 16).
    If scores are the same wherever both positions have one sum, and not where they have one difference, one of both
    was rotated backwards.
    """
    for name, tensor in probe.call.tensors().items():
        alike = _alike(tensor)
        if alike is None:
            continue
        flow = flow_or_none(probe, {**_few_rows(probe, len(tensor)), name: alike[:_ROWS]})
        if flow is None:
            continue
        for call in flow.calls:
            scores = _scores(call, tensor.shape[1])
            if scores is None or not _is_of_itself(flow, call, alike[:_ROWS].shape[:2]):
                continue
            words = _contradiction(scores)
            if words:
                yield broken(BOTH, _CLAIM, words, subject=name, positions=tensor.shape[1]).at(call.module)
                return
            if words is not None:
                yield held(BOTH, _CLAIM, subject=name)
                return


def _few_rows(probe: ModelProbe, samples: int) -> dict[str, torch.Tensor]:
    """Return the inputs that have one row for each sample, with a few rows: all tell the same."""
    tensors = probe.call.tensors().items()
    return {name: tensor[:_ROWS] for name, tensor in tensors if tensor.dim() and len(tensor) == samples}


def _alike(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the input with the same token, which is no padding, at all positions; None if it has no positions."""
    if tensor.dtype in (torch.int64, torch.int32) and tensor.dim() == 2:
        tokens = tensor[tensor > 0]
        if len(tokens) and _SHORTEST <= tensor.shape[1] <= _LONGEST and int(tokens.min()) < int(tokens.max()):
            return torch.full_like(tensor, int(tokens[0]))
    if tensor.is_floating_point() and tensor.dim() == 3 and _SHORTEST <= tensor.shape[1] <= _LONGEST:
        return tensor[:, :1].expand_as(tensor).clone()
    return None


def _scores(call: FlowCall, positions: int) -> torch.Tensor | None:
    """Return the scores `(..., queries, keys)` of an attention over so many positions, in double precision."""
    if call.name == _ATTENTION and len(call.arguments) > 1:
        query, key = call.arguments[:2]
        if query.shape[-2] == key.shape[-2] == positions and query.shape[-3:-2] == key.shape[-3:-2]:
            scores = query.detach().double() @ key.detach().double().transpose(-2, -1)
            mask = call.arguments[3] if len(call.arguments) > 3 else call.options.get("attn_mask")
            return scores + mask.double() if isinstance(mask, torch.Tensor) and mask.is_floating_point() else scores
    if call.name in _SOFTMAXES and call.given:
        scores, axis = call.given[0], call.options.get("dim", call.arguments[1] if len(call.arguments) > 1 else None)
        if scores.dim() > 2 and scores.shape[-2:] == (positions, positions) and axis in (-1, scores.dim() - 1):
            return scores.detach().double()
    return None


def _is_of_itself(flow: Flow, call: FlowCall, sizes: torch.Size) -> bool:
    """Return whether the module that attends was given one sequence of these sizes, or tokens, and no other."""
    sequences = {id(one) for one in call.module_inputs if one.dim() > 1 and one.shape[:2] == sizes}
    others = [
        one for one in call.module_inputs if one.is_floating_point() and one.dim() > 2 and id(one) not in sequences
    ]
    return len(sequences) == 1 and not any(flow.maker_of(one) is not None and one.requires_grad for one in others)


def _contradiction(scores: torch.Tensor) -> str | None:
    """Return what is wrong with the scores of one token at all positions; None if they do not know any position."""
    table = scores.reshape(-1, *scores.shape[-2:])
    is_seen = torch.isfinite(table) & (table > _MASKED)
    if not bool(is_seen.any()):
        return None
    size = float(table[is_seen].abs().max())
    along_keys, along_queries = (_spread(table, is_seen, axis) for axis in (2, 1))
    if max(along_keys, along_queries) <= _OTHER * size:
        return None
    if min(along_keys, along_queries) <= _SAME * size:
        known, unknown = ("query", "key") if along_queries > along_keys else ("key", "query")
        return (
            f"with one token at all {table.shape[1]} positions, the scores of attention differ with the position of "
            f"the {known}, and not at all with that of the {unknown}"
        )
    by_sum, by_difference = _off_diagonal(table.flip(2), is_seen.flip(2)), _off_diagonal(table, is_seen)
    if by_sum <= _SAME * size and by_difference > _OTHER * size:
        return (
            f"with one token at all {table.shape[1]} positions, the scores of attention are the same wherever the "
            "positions of query and key have the same sum, and not where they are as far apart"
        )
    return ""


def _spread(table: torch.Tensor, is_seen: torch.Tensor, axis: int) -> float:
    """Return by how much scores differ at most along an axis."""
    largest = table.where(is_seen, -torch.inf).amax(axis)
    spread = largest - table.where(is_seen, torch.inf).amin(axis)
    return float(spread.where(is_seen.any(axis), 0.0).max())


def _off_diagonal(table: torch.Tensor, is_seen: torch.Tensor) -> float:
    """Return by how much scores differ at most from the next ones along their diagonals."""
    is_pair = is_seen[:, 1:, 1:] & is_seen[:, :-1, :-1]
    steps = (table[:, 1:, 1:] - table[:, :-1, :-1]).where(is_pair, 0.0)
    return float(steps.nan_to_num().abs().max())
