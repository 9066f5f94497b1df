"""Does the output depend on every input, and on no other sample of the batch? Found by changing inputs of a copy."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch

from .check_result import CheckResult, broken, held, undecided
from .model_call import input_words
from .model_probe import ModelProbe, NotAnswered
from .origin import beginning_of, end_of, rows_but_the_first, rows_of_no_pairs

IGNORED, MIXED, ALIKE = "input_is_used", "samples_are_independent", "outputs_differ"
_USED = "the output depends on {input}"
_APART = "the output of a sample does not depend on the other samples of its batch"
_DIFFER = "the model gives different outputs for different samples"
#: Spread between samples over the size of the output below which all outputs are the same. Our choice.
_SAME = 1e-3
#: The same of unit vectors, of so many elements at least. Our choice: of features that were learned it is 0.4 and more.
_SAME_DIRECTION, _WIDE = 0.05, 8
#: Samples below which mixing cannot be told from the rest.
_FEWEST = 3
_AXES_OF_STATES: Final = 3


def inputs_are_used(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check each input that varies: the output must move when its values change places or are replaced.

    Single values, constant tensors and masks are left out: they may be meant to have no effect in this batch.
    """
    for name, tensor in probe.call.tensors().items():
        if not _varies(tensor):
            continue
        claim = _USED.format(input=input_words(name))
        try:
            has_moved = any(
                probe.has_moved(probe.answers({name: other}), at_all=True) or probe.has_other_numbers()
                for other in _others(tensor)
            )
        except NotAnswered as reason:
            if tensor.is_floating_point():  # whole numbers may be places that allow no others, as offsets of bags do
                yield undecided(IGNORED, claim, str(reason), subject=name)
            continue
        if has_moved:
            yield held(IGNORED, claim, subject=name)
        else:
            yield broken(
                IGNORED,
                claim,
                f"with other values of {name} {tuple(tensor.shape)}, every element of the output is the same",
                subject=name,
                elements=tensor.numel(),
            ).at(end_of(probe, {name: next(_others(tensor))}))


def samples_are_independent(probe: ModelProbe, samples: int | None, *, is_batched: bool) -> CheckResult | None:
    """Check that the first sample of a batch has no effect on the outputs of the others, in evaluation mode.

    Args:
        samples: Length of the batch, as the targets tell; None if nothing tells which axis holds the samples.
        is_batched: Whether the first axis of the inputs is known to hold samples.

    Returns:
        None where nothing tells that the first axis holds samples, or samples are nodes of one graph or steps in time.
    """
    tensors = probe.call.tensors()
    shared = _batch_size(probe)
    if shared is None or shared < _FEWEST or (samples is not None and samples != shared):
        return None
    if not (is_batched or _is_surely_batched(tensors, samples)) or _is_graph(probe, shared):
        return None
    try:
        moves = probe.moves(probe.answers(_first_replaced(tensors, shared)))
    except NotAnswered as reason:
        return undecided(MIXED, _APART, str(reason))
    is_told = has_pairs = False
    for at, answer in enumerate(moves):
        move = answer if answer.dim() < 3 or answer.shape[0] == shared else answer.transpose(0, 1)  # time comes first
        is_of_pairs = tuple(move.shape) == (shared, shared)
        has_pairs |= is_of_pairs
        if is_of_pairs or move.dim() == 0 or move.shape[0] != shared:
            continue
        is_told = True
        felt = (move.reshape(shared, -1).amax(1) > probe.limit(at)).nonzero().reshape(-1).tolist()
        others = [row for row in felt if row]
        if others and probe.reads_rows_in_turn(shared):
            return None  # the steps of one episode, one behind the other
        if others:
            return broken(
                MIXED,
                _APART,
                f"in evaluation mode, changing sample 0 alone moved the outputs of {len(others)} of the other "
                f"{shared - 1} samples, that of sample {others[0]} by {float(move[others[0]].max()):.3g}",
                moved=len(others),
                samples=shared,
                difference=float(move[others[0]].max()),
            ).at(beginning_of(probe, _first_replaced(tensors, shared), rows_but_the_first(shared)))
    if not is_told:  # no output has a row for each sample
        return _before_the_pairs(probe, _first_replaced(tensors, shared), shared) if has_pairs else None
    return held(MIXED, _APART, samples=shared)


def _before_the_pairs(probe: ModelProbe, changes: Mapping[str, torch.Tensor], samples: int) -> CheckResult | None:
    """Return where samples mix in a part of a model that answers for all pairs of them, as two towers do.

    A row of the pairs depends on all samples, so that they tell nothing. What each tower answers does.
    """
    place = beginning_of(probe, changes, rows_of_no_pairs(samples))
    if not place:
        return None
    words = (
        f"in evaluation mode, changing sample 0 alone moved what {place} answers for others of the {samples} samples"
    )
    return broken(MIXED, _APART, words, samples=samples).at(place)


def _first_replaced(tensors: dict[str, torch.Tensor], shared: int) -> dict[str, torch.Tensor]:
    """Return the inputs with the first sample replaced by another.

    More of the batch is not replaced: a range that is measured on all of it, as for quantisation, would move with it.
    """
    changes = {}
    for name, tensor in tensors.items():
        if tensor.dim() and tensor.shape[0] == shared:
            changed = tensor.clone()
            changed[0] = tensor[1] if not torch.equal(tensor[0], tensor[1]) else tensor[2]
            changes[name] = changed
    return changes


def outputs_differ(probe: ModelProbe, *, compares_directions: bool = False) -> CheckResult | None:
    """Check that the first output with one row for each sample is not the same row again and again.

    Args:
        compares_directions: Whether only the directions of the rows count.

    Returns:
        None where no input differs between the samples, or no output has a row for each.
    """
    shared = _batch_size(probe)
    if shared is None or shared < _FEWEST + 1:
        return None
    inputs = [tensor for tensor in probe.call.tensors().values() if tensor.dim() and tensor.shape[0] == shared]
    if not any(bool((tensor != tensor[:1]).any()) for tensor in inputs):
        return None
    output = next((output for output in probe.base if output.dim() and output.shape[0] == shared), None)
    if output is None:
        return None
    if compares_directions and output.dim() == 2 and output.shape[1] >= _WIDE:
        mean = torch.nn.functional.normalize(output, dim=1).mean(0)
        apart = float((1.0 - mean.square().sum()).clamp_min(0.0).sqrt())
        if apart < _SAME_DIRECTION:
            words = f"for {shared} different samples the outputs have the same direction, {apart:.2g} apart"
            return broken(ALIKE, _DIFFER, words, samples=shared, spread=apart, size=1.0)
    size = float(output.pow(2).mean().sqrt())
    spread = float(output.std(0).pow(2).mean().sqrt())
    if spread > _SAME * size or size == 0.0:
        return held(ALIKE, _DIFFER, samples=shared, spread=spread, size=size)
    words = (
        f"for {shared} different samples the outputs differ by {spread:.3g} only, of a root mean square of {size:.3g}"
    )
    return broken(ALIKE, _DIFFER, words, samples=shared, spread=spread, size=size)


def _varies(tensor: torch.Tensor) -> bool:
    if tensor.numel() < 2 or tensor.dtype is torch.bool or tensor.is_complex():
        return False
    if not tensor.is_floating_point() and int(tensor.max()) - int(tensor.min()) < 2:
        return False  # a mask, or the segments of one sentence
    return bool((tensor != tensor.reshape(-1)[0]).any())


def _others(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield tensors of the same values in other places, then one of other values, if there are any."""
    if tensor.dim() and tensor.shape[0] > 1:
        yield tensor.roll(1, 0)
    yield tensor.reshape(-1).roll(1).reshape(tensor.shape)
    if tensor.is_floating_point():
        yield tensor * -0.7 + 1.3 * tensor.std() + 0.1


def _batch_size(probe: ModelProbe) -> int | None:
    """Return the length that the first axes of inputs and outputs share; that of outputs may come second.

    Of several, as where a recurrent network is given a state of each of its layers, it is that of the first input.
    """
    lengths = [tensor.shape[0] for tensor in probe.call.tensors().values() if tensor.dim()]
    for axis in range(2):
        found = {output.shape[axis] for output in probe.base if output.dim() > 2 * axis} & set(lengths)
        if found:
            return found.pop() if len(found) == 1 else lengths[0] if lengths[0] in found else None
    return None


def _is_surely_batched(tensors: dict[str, torch.Tensor], samples: int | None) -> bool:
    """Return whether the first axis holds samples: for images, plain rows, or one target for each."""
    first = next((tensor for tensor in tensors.values() if tensor.dim() > 1), None)
    if first is None:
        return False
    return samples is not None or first.dim() >= 4 or (first.dim() == 2 and first.is_floating_point())


def _are_ends_of_edges(tensor: torch.Tensor, samples: int) -> bool:
    """Return whether these are numbers of samples, and not one for each: where edges among them begin, or end."""
    if tensor.dim() != 1 or tensor.dtype not in (torch.int32, torch.int64) or tensor.shape[0] in (1, samples):
        return False
    return bool(tensor.numel()) and 0 <= int(tensor.min()) < int(tensor.max()) < samples


def _is_graph(probe: ModelProbe, samples: int) -> bool:
    """Return whether anything looks like the edges among the samples: a list of pairs, two lists of their
    ends, or a square matrix of them."""
    held_tensors = list(probe.call.tensors().values())
    has_nodes = any(one.is_floating_point() and one.dim() > 1 and len(one) == samples for one in held_tensors)
    for module in probe.modules():
        held_tensors += [value for value in vars(module).values() if isinstance(value, torch.Tensor)]
        held_tensors += [buffer for buffer in module.buffers(recurse=False)]
    arguments = (*probe.call.arguments, *probe.call.keywords.values())
    if any(isinstance(value, torch.Tensor) and value.layout is not torch.strided for value in arguments):
        return True
    for tensor in held_tensors:
        if tensor.layout is not torch.strided or tuple(tensor.shape[-2:]) == (samples, samples):
            return True
        if tensor.dim() == 2 and 2 in tensor.shape and not tensor.is_floating_point():
            return True
        if has_nodes and _are_ends_of_edges(tensor, samples):
            return True
    return not all(_names_no_edges(value, samples) for value in arguments)


def _names_no_edges(value: Any, samples: int) -> bool:
    """Return whether an argument is one tensor or plain value, or a collection of states, or of codes, of each sample.

    A state of recurrent layers is `(layers, samples, units)`, and codes are tokens with their lengths or masks; any
    other object, also numbers of samples beside features, may hold edges.
    """
    if isinstance(value, torch.Tensor | int | float | str | bool | None):
        return True
    parts = [*value.values()] if isinstance(value, Mapping) else list(value) if isinstance(value, tuple | list) else []
    if not parts or not all(isinstance(one, torch.Tensor) for one in parts):
        return False
    are_states = all(one.dim() == _AXES_OF_STATES and one.is_floating_point() for one in parts)
    return are_states or all(one.dim() and len(one) == samples and not one.is_floating_point() for one in parts)
