"""Do tokens feel padding in place of each other? Tried by moving what an embedding makes of the positions."""

from collections.abc import Iterator
from typing import Any

import torch

from .check_result import CheckResult, broken, undecided
from .model_call import outputs_of
from .model_probe import ModelProbe, NotAnswered, removed_after
from .padding import ATTENDED, padding_of

_READ = "outputs depend on the tokens that are not padding"
#: Movement, of the size of a layer's output, above which it is felt, and below which it is rounding. Our choice.
_FELT, _NOTHING = 1e-3, 1e-5
#: Elements of outputs of layers that are kept, and the fewest positions that are watched. Our choice.
_MOST_ELEMENTS, _FEWEST = 1 << 23, 2

_Outputs = dict[tuple[int, int], torch.Tensor]


def padding_is_not_read_in_place_of_tokens(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check models that embed tokens `(batch, positions)` with padding at the end of rows, wherever the mask is made.

    What an embedding makes of the padded positions is moved, then what it makes of every second real one, the tokens
    being the same: the mask of padding stays as it is. In all outputs of layers, and in those of the model, watch the
    real positions that were not moved. A mask that is inverted lets them feel padding, and each other not at all.
    """
    for name, tokens in probe.call.tensors().items():
        padded = padding_of(tokens)
        if padded is None:
            continue
        real = ~padded & padded.any(1)[:, None]
        moved = real & ((real.cumsum(1) % 2) == 0)
        watched = real & ~moved
        try:
            base = _outputs(probe, tokens, torch.zeros_like(padded))
            by_padding = _outputs(probe, tokens, padded)
            by_tokens, by_all_tokens = (_outputs(probe, tokens, each) for each in (moved, real))
        except NotAnswered as reason:
            yield undecided(ATTENDED, _READ, str(reason), subject=name)
            return
        among = _largest(base, by_padding, watched), _largest(base, by_tokens, watched)
        of_rows = (_largest_of_rows(base, each, padded) for each in (by_padding, by_all_tokens))
        for (padding, token), what in ((among, "outputs of layers at other real positions"), (of_rows, "outputs")):
            if padding > _FELT and token <= _NOTHING:
                words = (
                    f"of the rows of {name} with padding, other embeddings of the padded positions moved {what} by "
                    f"{padding:.2g} of their size, and other embeddings of the real positions moved none: what is not "
                    "padding is left out"
                )
                yield broken(ATTENDED, _READ, words, subject=name, by_padding=padding, by_tokens=token)
                return
        return


def _outputs(probe: ModelProbe, tokens: torch.Tensor, moved: torch.Tensor) -> _Outputs:
    """Return the outputs of all modules of the copy, with noise on what embeddings make of these positions.

    Raises:
        NotAnswered: No embedding is called with the tokens, the model refuses, or the time for checks is used up.
    """
    found: _Outputs = {}
    embedded: list[int] = []
    numbers = {id(module): number for number, module in enumerate(probe.modules())}
    left = _MOST_ELEMENTS

    def keep(module: torch.nn.Module, arguments: tuple[Any, ...], output: Any) -> Any:
        nonlocal left
        if isinstance(module, torch.nn.Embedding) and arguments and torch.equal(arguments[0], tokens):
            embedded.append(1)
            noise = torch.rand(output.shape[-1:], dtype=output.dtype, device=output.device) + 0.5
            return output + moved[..., None] * noise * (output.std() + 0.1)
        for each in outputs_of(output):
            if each.numel() <= left:
                left -= each.numel()
                found[numbers[id(module)], len(found)] = each.detach().clone()
        return None

    with removed_after([module.register_forward_hook(keep) for module in probe.modules()]):
        answers = probe.answers({})
    if not embedded:
        raise NotAnswered("no embedding is called with the tokens")
    return {**found, **{(-1, at): answer for at, answer in enumerate(answers)}}


def _largest(base: _Outputs, others: _Outputs, watched: torch.Tensor) -> float:
    """Return by how much of their size the outputs at these positions moved most."""
    largest = 0.0
    if int(watched.sum()) < _FEWEST:
        return largest
    for key, output in base.items():
        other = others.get(key)
        if other is None or other.shape != output.shape or output.dim() < 3:
            continue
        move = (other - output).abs()
        if tuple(output.shape[:2]) != tuple(watched.shape):
            move = move.transpose(0, 1)  # where time comes first
        if tuple(move.shape[:2]) == tuple(watched.shape):
            largest = max(largest, float(move[watched].max()) / (float(output.abs().max()) + 1e-12))
    return largest


def _largest_of_rows(base: _Outputs, others: _Outputs, padded: torch.Tensor) -> float:
    """Return by how much of their size the answers of padded rows moved most, where they have no positions."""
    rows, largest = padded.any(1), 0.0
    answers = ((output, others.get(key)) for key, output in base.items() if key[0] < 0)
    for output, other in answers:
        if other is None or other.shape != output.shape or output.shape[:1] != rows.shape:
            continue
        if output.dim() > 1 and output.shape[1] in padded.shape:
            continue
        largest = max(largest, float((other - output).abs()[rows].max()) / (float(output.abs().max()) + 1e-12))
    return largest
