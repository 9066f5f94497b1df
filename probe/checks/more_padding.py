"""Do more padded positions at the end of a batch change anything? Tried where a model has no mask of its own shape."""

from collections.abc import Iterator

import torch

from .check_result import CheckResult, broken, held, undecided
from .model_probe import ModelProbe, NotAnswered
from .padding import ATTENDED, padding_of

MORE = "more_padding_has_no_effect"
_MORE = "padding that is added to all rows has no effect on the outputs of rows that are padded already"
_READ = "outputs depend on the tokens that are not padding"
#: Positions that are added; padding that a row must have already, so that no convolution meets its end for the first
#: time. Our choice.
_ADDED, _LEAST = 3, 2
#: Share of the outputs' spread above which a movement is more than the edge of a convolution. Our choice.
_MUCH = 0.05


def more_padding_has_no_effect(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check models that get tokens `(batch, positions)` with padding at the end.

    Whether padding is known to the model is said by a mask or by the lengths of the rows among its inputs; a model that
    finds the padding itself, or does not care, gets neither. If more padding matters, and what stands at the other
    positions does not, then the mask is inverted.
    """
    tensors = probe.call.tensors()
    for name, tokens in tensors.items():
        padded = padding_of(tokens)
        if padded is None:
            continue
        told = _who_tells(tensors, name, padded)
        try:
            moved = _moved(probe, probe.answers(_longer(tensors, padded)), padded)
            if moved is None:
                return
            if moved <= _MUCH:
                yield held(MORE, _MORE, subject=name, moved=moved)
                lost = _rows_not_read(probe, name, tokens, padded)
                if lost:
                    words = (
                        f"other tokens of {name} move the outputs of rows without padding, and of none of {lost} rows "
                        "with padding: the mask leaves out what is not padding"
                    )
                    yield broken(ATTENDED, _READ, words, subject=name, rows=lost)
            else:
                if not _reads_tokens(probe, name, tokens, padded):
                    words = (
                        f"other tokens of {name} at positions that are not padding move no output of another position, "
                        f"while padding of {_ADDED} more positions moves outputs by {moved:.3g} of their spread"
                    )
                    yield broken(ATTENDED, _READ, words, subject=name, moved=moved)
                words = (
                    f"{_ADDED} more padded positions moved the outputs of rows of {name} that are padded already by "
                    f"{moved:.3g} of their spread{f', although the model gets {told}' if told else ''}"
                )
                yield broken(MORE, _MORE, words, subject=name, moved=moved, is_told=float(bool(told)))
        except NotAnswered as reason:
            yield undecided(MORE, _MORE, str(reason), subject=name)
        return


def _who_tells(tensors: dict[str, torch.Tensor], name: str, padded: torch.Tensor) -> str:
    """Return the name of an input that tells where padding begins; empty if there is none."""
    lengths = (~padded).sum(1)
    for other, tensor in tensors.items():
        if other == name:
            continue
        if tensor.shape == padded.shape and bool((tensor.bool() == padded).all() or (tensor.bool() == ~padded).all()):
            return other
        if tensor.shape == lengths.shape and bool((tensor.to(lengths.device) == lengths).all()):
            return other
    return ""


def _longer(tensors: dict[str, torch.Tensor], padded: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return all inputs that have a value at each position, with padded positions added."""
    row = int(padded[:, -1].long().argmax())
    changes = {}
    for name, tensor in tensors.items():
        if tensor.dim() >= 2 and tensor.shape[:2] == padded.shape:
            last = tensor[row : row + 1, -1:].expand(tensor.shape[0], _ADDED, *tensor.shape[2:])
            changes[name] = torch.cat((tensor, last), 1)
    return changes


def _moved(probe: ModelProbe, answers: list[torch.Tensor], padded: torch.Tensor) -> float | None:
    """Return how far outputs at real positions of padded rows moved, over their spread; None if there are none."""
    rows = padded.sum(1) >= _LEAST
    batch, length = padded.shape
    largest = None
    for answer, base in zip(answers, probe.base, strict=False):
        if base.dim() < 2 or base.shape[0] != batch or answer.shape[0] != batch or answer.dim() != base.dim():
            continue
        if base.shape[1] == length and answer.shape[1] == length + _ADDED and base.dim() > 2:
            move, kept = (answer[:, :length] - base).abs(), rows[:, None] & ~padded
        elif answer.shape == base.shape:
            move, kept = (answer - base).abs(), rows
        else:
            continue
        spread = float(base[kept].std())
        if kept.sum() > 1 and spread > 0.0:
            largest = max(largest or 0.0, float(move[kept].pow(2).mean().sqrt()) / spread)
    return largest


def _reads_tokens(probe: ModelProbe, name: str, tokens: torch.Tensor, padded: torch.Tensor) -> bool:
    """Return whether other tokens, padding left where it is, move outputs at positions whose token stays."""
    rows, length = padded.sum(1) >= _LEAST, tokens.shape[1]
    changed = tokens.clone()
    kept = ~padded
    kept[:, 0] = False  # stays as it is: an output may depend on its own token alone
    changed[kept] = tokens[kept].roll(1)
    moves = probe.moves(probe.answers({name: changed}))
    for at, move in enumerate(moves):
        if move.dim() < 2 or move.shape[0] != tokens.shape[0]:
            continue
        is_positioned = move.dim() > 2 and move.shape[1] == length
        felt = move[:, 0][rows] if is_positioned else move[rows]
        if felt.numel() and float(felt.max()) > probe.limit(at):
            return True
        if is_positioned and _is_causal(probe, at, move[rows], (changed != tokens)[rows]):
            return True
    return False


def _rows_not_read(probe: ModelProbe, name: str, tokens: torch.Tensor, padded: torch.Tensor) -> int:
    """Return how many padded rows have an output that no token moves, while other rows' move; 0 if any does."""
    rows, full = padded.sum(1) >= _LEAST, ~padded.any(1)
    if int(rows.sum()) < _LEAST or not bool(full.any()):
        return 0
    changed = tokens.clone()
    changed[~padded] = tokens[~padded].flip(0)
    for at, move in enumerate(probe.moves(probe.answers({name: changed}))):
        if move.dim() == 0 or move.shape[0] != tokens.shape[0] or move.shape[1:2] == tokens.shape[1:]:
            continue
        felt = move.reshape(move.shape[0], -1).amax(1) > probe.limit(at)
        if bool(felt[full].any()) and not bool(felt[rows].any()):
            return int(rows.sum())
    return 0


def _is_causal(probe: ModelProbe, at: int, move: torch.Tensor, changed: torch.Tensor) -> bool:
    """Return whether outputs move at positions whose own token is the same: those after the first change."""
    own = move.reshape(*move.shape[:2], -1).amax(2)
    return bool((own[~changed] > probe.limit(at)).any())
