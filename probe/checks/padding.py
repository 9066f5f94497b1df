"""Do masked positions have no effect, and does the loss leave out padding?"""

from collections.abc import Iterator, Sequence

import torch

from ...storage.percent import percent
from .check_result import CheckResult, broken, held, undecided
from .model_call import ModelCall
from .model_probe import ModelProbe, NotAnswered

COUNTED, ATTENDED = "padding_is_not_scored", "masked_positions_have_no_effect"
IGNORED = "ignored_targets_are_padding"
_COUNTED = "the loss leaves out padded positions"
_ATTENDED = "the input at masked positions has no effect on the outputs at the others"
_IGNORED_CLAIM = "target {token}, which the loss ignores, stands at the ends of rows"
_ANSWERED = "a mask of padding leaves something of each row"
#: Share of rows that must end in padding, how many that must be (one or two may end in a word that is repeated), and
#: share of padded positions that must be scored to say so.
_PADDED_ROWS, _FEWEST_ROWS, _SCORED = 0.25, 3, 0.98
#: Ignored targets between others below which nothing is said, and the share of them that must have no ignored
#: neighbour: labels of spans that are left out on purpose stand together. Our choice.
_FEWEST, _ALONE = 8, 0.8
_AXES_OF_TOKENS = 2


def masked_positions_have_no_effect(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check models that get tokens `(batch, positions)` with padding at the end, and a mask of it of the same shape."""
    tensors = probe.call.tensors()
    for name, tokens in tensors.items():
        padded = padding_of(tokens)
        masks = [other for other, mask in tensors.items() if other != name and _is_mask(mask, padded)]
        if padded is None or not masks or int(tokens.max()) - int(tokens.min()) <= 1:
            continue  # the mask itself, which looks like tokens of a small vocabulary
        changed = tokens.clone()
        real = tokens[~padded]
        changed[padded] = real[torch.arange(int(padded.sum()), device=real.device) % real.numel()]
        try:
            moves = probe.moves(probe.answers({name: changed}))
        except NotAnswered as reason:
            yield undecided(ATTENDED, _ATTENDED, str(reason), subject=masks[0])
            continue
        yield _judge(probe, moves, padded, name, masks[0])


def _judge(probe: ModelProbe, moves: list[torch.Tensor], padded: torch.Tensor, name: str, mask: str) -> CheckResult:
    is_padded_row = padded.any(1)
    for at, move in enumerate(moves):
        if move.dim() < 2 or move.shape[0] != padded.shape[0]:
            continue
        if tuple(move.shape[:2]) == tuple(padded.shape):
            kept = move.reshape(*padded.shape, -1).amax(2)[~padded & is_padded_row[:, None]]
        else:
            kept = move.reshape(padded.shape[0], -1).amax(1)[is_padded_row]
        if kept.numel() and float(kept.max()) > probe.limit(at):
            return broken(
                ATTENDED,
                _ATTENDED,
                f"other tokens of {name} at padded positions, with the same {mask}, moved outputs that are not padded "
                f"by up to {float(kept.max()):.3g}",
                subject=mask,
                padded=int(padded.sum()),
                difference=float(kept.max()),
            )
    return held(ATTENDED, _ATTENDED, subject=mask, padded=int(padded.sum()))


def unpadded_rows_are_answered(call: ModelCall, outputs: Sequence[torch.Tensor]) -> CheckResult | None:
    """Check outputs of which some are not finite: an inverted mask leaves nothing of the rows without padding.

    Args:
        call: With tokens `(batch, positions)`.
        outputs: Answers in evaluation mode.

    Returns:
        A broken claim if just the outputs of the rows without padding are not finite, else None.
    """
    for name, tokens in call.tensors().items():
        padded = padding_of(tokens)
        if padded is None:
            continue
        is_full = ~padded.any(1)
        for output in outputs:
            if output.dim() < 2 or output.shape[0] != tokens.shape[0] or not bool(is_full.any()):
                continue
            is_lost = ~torch.isfinite(output.reshape(output.shape[0], -1)).all(1)
            if torch.equal(is_lost.to(is_full.device), is_full):
                words = (
                    f"in evaluation mode the outputs of all {int(is_full.sum())} rows of {name} without padding are "
                    f"not finite, and those of all {int((~is_full).sum())} rows with padding are: the mask leaves out "
                    "what is not padding, of those rows everything"
                )
                return broken(ATTENDED, _ANSWERED, words, subject=name, rows=int(is_full.sum()))
    return None


def padding_is_not_scored(
    probe: ModelProbe, target: torch.Tensor, *, ignored: int, is_mean: bool
) -> CheckResult | None:
    """Check a loss of class indices over all positions, averaged by the loss itself.

    Args:
        target: The class indices, of any shape.
        ignored: The index that the loss ignores.
        is_mean: Whether the loss averages over all positions; otherwise they may be masked later.

    Returns:
        None where nothing is padded, or the loss does not average.
    """
    if not is_mean or target.is_floating_point():
        return None
    for name, tokens in probe.call.tensors().items():
        padded = padding_of(tokens)
        if padded is None or target.numel() != tokens.numel():
            continue
        rows = target.reshape(tokens.shape)
        inner = padded[:, :-1] & padded[:, 1:]
        scored = rows[:, :-1][inner]
        if not scored.numel() or bool((scored != scored[0]).any()):
            return None
        share = float(padded.float().mean())
        if int(scored[0]) in (ignored,) or int(scored[0]) < 0:
            return held(COUNTED, _COUNTED, subject=name, padded_share=share)
        return broken(
            COUNTED,
            _COUNTED,
            f"{percent(share)} of the positions of {name} are padding, and their target {int(scored[0])} is scored "
            f"like any other (ignore_index is {ignored})",
            subject=name,
            padded_share=share,
        )
    return None


def ignored_tokens_end_rows(probe: ModelProbe, target: torch.Tensor, *, ignored: int) -> CheckResult | None:
    """Check that a class that the loss ignores is padding, and no token between others that the model is given, too.

    Args:
        target: The class indices, of any shape.
        ignored: The index that the loss ignores.

    Returns:
        None where nothing is ignored, or where no input says which positions make a row.
    """
    if ignored < 0 or target.is_floating_point():
        return None
    for name, tokens in probe.call.tensors().items():
        is_of_tokens = (
            tokens.dim() == _AXES_OF_TOKENS and not tokens.is_floating_point() and tokens.dtype is not torch.bool
        )
        if not is_of_tokens or target.numel() != tokens.numel():
            continue
        rows = target.reshape(tokens.shape)
        is_ignored = rows == ignored
        inside = is_ignored & _is_between(~is_ignored)
        alone = inside[:, 1:-1] & ~is_ignored[:, :-2] & ~is_ignored[:, 2:]
        count, given = int(alone.sum()), int(((tokens == ignored) & _is_between(tokens != ignored)).sum())
        claim = _IGNORED_CLAIM.format(token=ignored)
        if min(count, given) < _FEWEST or count < _ALONE * int(inside.sum()):
            return held(IGNORED, claim, subject=name) if is_ignored.any() else None
        words = (
            f"{count} of the {rows.numel()} targets are {ignored}, which the loss ignores, between two that count; "
            f"{name} holds {given} of that token between others"
        )
        return broken(IGNORED, claim, words, subject=name, tokens=float(count))
    return None


def _is_between(counted: torch.Tensor) -> torch.Tensor:
    """Return where any position before it, and any behind it, counts."""
    return (counted.cumsum(1) > 0) & (counted.flip(1).cumsum(1).flip(1) > 0)


def padding_of(tokens: torch.Tensor) -> torch.Tensor | None:
    """Return the mask of a common token at the ends of many rows of different lengths; None if there is none."""
    if tokens.dim() != 2 or tokens.is_floating_point() or tokens.dtype is torch.bool or min(tokens.shape) < 4:
        return None
    last = tokens[:, -1]
    token = int(torch.mode(last).values)
    padded = (tokens == token).flip(1).cumprod(1).flip(1).bool()
    lengths = padded.sum(1)
    rows = lengths >= 2
    is_rare = int(rows.sum()) < _FEWEST_ROWS or float(rows.float().mean()) < _PADDED_ROWS
    if is_rare or int(torch.unique(lengths).numel()) < 3 or bool(padded.all()):
        return None
    # the token occurs nowhere else: it is no word
    return padded if int((tokens == token).sum()) == int(padded.sum()) else None


def _is_mask(mask: torch.Tensor, padded: torch.Tensor | None) -> bool:
    if padded is None or tuple(mask.shape) != tuple(padded.shape):
        return False
    if not mask.is_floating_point() and int(mask.max()) - int(mask.min()) > 1:
        return False  # tokens whose padding is 0
    values = mask.bool()
    return bool((values == padded).all() or (values == ~padded).all())
