"""Are targets those of the next position, or copies of the input? May a model see what it predicts?"""

from collections.abc import Iterator

import torch

from .check_result import CheckResult, broken, held, undecided
from .loss_graph import views_behind
from .model_call import input_words
from .model_probe import ModelProbe, NotAnswered, NotFinite
from .origin import beginning_of, positions_before

CAUSAL, COPIED = "no_position_sees_later_ones", "targets_are_not_the_input"
NEXT = "targets_are_the_next_position"
_CAUSAL = "no output depends on input at a later position, which is what it predicts"
_COPIED = "the model does not get as input what it is to predict at the same position"
_NEXT = "the targets of a sequence are its next position"
#: Share of positions at which targets must agree with the input to be called the same.
_ALIKE = 0.98
_FEWEST_POSITIONS = 3
#: By how many positions the targets of a sequence may be fewer. Our choice.
_MOST_FEWER = 6
#: Positions by which targets may be late.
_LATE = (2, 3)
#: Share of the positions between the first and the last scored one of a row that a masked objective leaves out. Our
#: choice: prompts and padding are left out at the ends only.
_LEFT_OUT = 0.05
#: Unsigned numbers from here on, with which a graph keeps where slices begin, count from the end.
_NEGATIVE = 1 << 63


def targets_of_sequences(
    probe: ModelProbe, target: torch.Tensor, *, ignored: int = -100, first: int = 0
) -> Iterator[CheckResult]:
    """Check models whose targets are the input one position later or more, or the input itself.

    Args:
        target: What the loss compares with: class indices or real values, of any shape; negative classes are ignored.
        ignored: The index that the loss ignores.
        first: Position of the first output that the loss compares.
    """
    for name, tensor in probe.call.tensors().items():
        rows = _aligned(tensor, target)
        if rows is None:
            shifted = _shifted_inside(tensor, target)
            if shifted is not None and _length(probe, tensor):
                yield from _next_or_later(probe, name, tensor, shifted, first)
            continue
        if _agree(rows[:, :-1], tensor[:, 1:]):
            yield _sees_later(probe, name, tensor)
        elif not tensor.is_floating_point() and _length(probe, tensor):
            if _agree(rows, tensor, ignored):
                yield from _shown(probe, name, tensor, (rows >= 0) & (rows != ignored))
            else:
                yield from _late(rows[:, :-1], tensor[:, 1:], name)


def _next_or_later(
    probe: ModelProbe, name: str, tensor: torch.Tensor, targets: torch.Tensor, first: int
) -> Iterator[CheckResult]:
    """Check targets that the program has shifted against the whole input: one for each position but a few."""
    following = tensor[:, 1 + first :][:, : targets.shape[1]]
    targets = targets[:, : following.shape[1]]
    if _agree(targets, following):
        yield _sees_later(probe, name, tensor)
    else:
        yield from _late(targets, following, name)


def _shown(probe: ModelProbe, name: str, tensor: torch.Tensor, scored: torch.Tensor) -> Iterator[CheckResult]:
    """Check targets that are the input at the same positions: nothing may show them to the model."""
    result = _sees_later(probe, name, tensor)
    # a causal model gains nothing from a bottleneck: it copies, unless it shifts the input itself
    if result.outcome == "held" and result.numbers["sees_its_own"]:
        yield broken(
            COPIED,
            _COPIED,
            f"the targets are {input_words(name)} {tuple(tensor.shape)}, position by position; the model needs "
            "only to copy it",
            subject=name,
            positions=tensor.shape[1],
        )
    elif result.outcome == "broken" and _is_masked_objective(scored):
        yield broken(
            COPIED,
            _COPIED,
            f"{int(scored.sum())} of the {scored.numel()} positions of {name} are scored, and the input there is the "
            "target itself; the model needs only to copy it",
            subject=name,
            positions=tensor.shape[1],
            scored=int(scored.sum()),
        )


def _is_masked_objective(scored: torch.Tensor) -> bool:
    """Return whether positions between scored ones are left out in most rows, as in masked language models."""
    begun = scored.cumsum(1) > 0
    inner = begun & (scored.flip(1).cumsum(1).flip(1) > 0)
    return int((inner & ~scored).sum()) >= _LEFT_OUT * int(inner.sum()) > 0


def _late(targets: torch.Tensor, following: torch.Tensor, name: str) -> Iterator[CheckResult]:
    """Check that targets `(batch, positions)` of tokens are not those after the next ones."""
    if targets.is_floating_point():
        return
    for late in _LATE:
        if targets.shape[1] > late and _agree(targets[:, : 1 - late], following[:, late - 1 :]):
            yield broken(
                NEXT,
                _NEXT,
                f"the target of each position is {input_words(name)} {late} positions later, and the loss never asks "
                "for the next one",
                subject=name,
                late=late,
            )
            return


def first_compared(prediction: torch.Tensor) -> int:
    """Return the position of the first output that a loss compares, as slices in the graph of its input tell.

    Args:
        prediction: Of the outputs `(batch, positions, ...)` a slice, as it is or as one row for each position.
    """
    first = 0
    for node in views_behind(prediction):
        if node.name().startswith("Slice") and node._saved_dim == 1:
            size, start = int(node._saved_self_sym_sizes[1]), int(node._saved_start)
            first += start if start < _NEGATIVE else max(size + start - 2 * _NEGATIVE, 0)
    return first


def _aligned(tensor: torch.Tensor, target: torch.Tensor) -> torch.Tensor | None:
    """Return the targets as rows beside an input `(batch, positions, ...)` of the same kind; None if they are not."""
    is_real = tensor.is_floating_point()
    if tensor.dim() < 2 or is_real != target.is_floating_point() or target.dtype is torch.bool:
        return None
    if tensor.shape[1] < _FEWEST_POSITIONS or (tensor.dim() > 2 and not is_real):
        return None
    if target.numel() == tensor.numel():
        return target.reshape(tensor.shape)
    return None


def _shifted_inside(tensor: torch.Tensor, target: torch.Tensor) -> torch.Tensor | None:
    """Return targets as rows beside tokens `(batch, positions)` that are a little longer; None if they are not."""
    if tensor.dim() != 2 or tensor.is_floating_point() or target.is_floating_point() or target.dtype is torch.bool:
        return None
    samples, positions = tensor.shape
    if positions <= _FEWEST_POSITIONS or not samples or target.numel() % samples:
        return None
    length, fewest = target.numel() // samples, max(positions - _MOST_FEWER, _FEWEST_POSITIONS)
    return target.reshape(samples, length) if fewest <= length < positions else None


def _agree(targets: torch.Tensor, values: torch.Tensor, ignored: int = -100) -> bool:
    """Return whether targets that count equal these values; a constant sequence tells nothing."""
    counts = targets == targets if targets.is_floating_point() else (targets >= 0) & (targets != ignored)
    total = int(counts.sum())
    if total < 2 * _FEWEST_POSITIONS or bool((values == values.reshape(-1)[0]).all()):
        return False
    return int(((targets == values) & counts).sum()) >= _ALIKE * total


def _length(probe: ModelProbe, tensor: torch.Tensor) -> bool:
    return any(output.dim() > 1 and output.shape[1] == tensor.shape[1] for output in probe.base)


def _sees_later(probe: ModelProbe, name: str, tensor: torch.Tensor) -> CheckResult:
    length, batch = tensor.shape[1], tensor.shape[0]
    outputs = [at for at, output in enumerate(probe.base) if by_position(output, batch, length) is not None]
    if not outputs:
        return undecided(CAUSAL, _CAUSAL, f"no output has the {length} positions of {name}", subject=name)
    sees_its_own, lost = False, ""
    for position in sorted({length - 1, length // 2, 1}):
        changed = tensor.clone()
        changed[:, position] = tensor.roll(1, 0)[:, position] if batch > 1 else tensor.roll(1, 1)[:, position]
        if torch.equal(changed, tensor):
            changed[:, position] = (
                tensor.reshape(-1).flip(0)[: changed[:, position].numel()].reshape(changed[:, position].shape)
            )
        try:
            moves = probe.moves(probe.answers({name: changed}))
        except NotFinite as reason:  # where it is finite, a move is one all the same
            lost, moves = str(reason), [move.nan_to_num(0.0, 0.0) for move in probe.moves(reason.outputs)]
        except NotAnswered as reason:
            return undecided(CAUSAL, _CAUSAL, str(reason), subject=name)
        for at in outputs:
            rows = by_position(moves[at], batch, length) if at < len(moves) else None
            felt = [] if rows is None else (rows > probe.limit(at)).nonzero().reshape(-1).tolist()
            sees_its_own |= position in felt
            if felt and felt[0] < position and rows is not None:
                return broken(
                    CAUSAL,
                    _CAUSAL,
                    f"the targets are {input_words(name)} one position later, and changing it at position {position} "
                    f"moved the output at position {felt[0]} by {float(rows[felt[0]]):.3g}",
                    subject=name,
                    changed=position,
                    first_output=felt[0],
                    difference=float(rows[felt[0]]),
                    positions=length,
                ).at(beginning_of(probe, {name: changed}, positions_before(batch, length, position)))
    if lost:
        return undecided(CAUSAL, _CAUSAL, lost, subject=name)
    return held(CAUSAL, _CAUSAL, subject=name, positions=length, sees_its_own=sees_its_own)


def by_position(values: torch.Tensor, batch: int, length: int) -> torch.Tensor | None:
    """Return `(positions,)`, the largest value at each; None if the values have no such axis."""
    if values.dim() >= 2 and values.shape[0] == batch and values.shape[1] == length:
        return values.transpose(0, 1).reshape(length, -1).amax(1)
    if values.dim() == 2 and values.shape[0] == batch * length:
        return values.reshape(batch, length, -1).transpose(0, 1).reshape(length, -1).amax(1)
    return None
