"""Runs all checks that call a copy of a model with a batch of its training."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import torch

from .attention_checks import attention_is_over_the_tokens
from .batch_statistics import running_statistics_fit_the_batches
from .check_result import CheckResult
from .clamped_values import CLAMPS, clamps_leave_values_free
from .copy_flow import flow_or_none
from .copy_tape import Noted, noted_calls
from .dependence import inputs_are_used, outputs_differ, samples_are_independent
from .drawn_values import drawn_values_carry_gradients
from .input_scales import large_inputs_reach_a_layer
from .inverted_padding import padding_is_not_read_in_place_of_tokens
from .lost_writes import repeated_writes_are_added_up
from .model_call import ModelCall
from .model_probe import ModelProbe, NotAnswered
from .more_padding import more_padding_has_no_effect
from .nearest_codes import chosen_codes_are_near
from .padding import ignored_tokens_end_rows, masked_positions_have_no_effect, padding_is_not_scored
from .places import answers_do_not_depend_on_the_row, future_begins_at_the_next_position, samples_differ
from .random_answers import answers_are_repeatable
from .reshaped_axes import PASSES, PERMUTES, RESHAPES, Reshape, axes_are_not_exchanged_by_reshaping, is_meant
from .score_positions import scores_know_both_positions
from .sequence_targets import CAUSAL, COPIED, first_compared, targets_of_sequences
from .shifted_labels import labels_belong_to_their_rows
from .step_seen import LossSeen
from .straight_through import straight_through_steps_pass_gradients
from .target_columns import targets_in_columns
from .target_windows import targets_begin_behind_the_input
from .used_places import places_are_used

#: Elements of a target that is looked at.
_MOST_ELEMENTS: Final = 1 << 20


def checks_of_a_copy(
    probe: ModelProbe,
    losses: Sequence[LossSeen],
    answered: Sequence[LossSeen],
    written: Sequence[torch.Tensor],
    *,
    picked: Sequence[torch.Tensor] = (),
    is_same_batch: bool,
) -> Iterator[CheckResult]:
    """Yield what a copy tells in one of the first steps.

    Args:
        losses: Calls of loss functions in that step.
        answered: Those of them that got just what the model had answered.
        written: Real numbers that outputs were compared with.
        picked: Tokens whose log-probabilities a loss picks.
        is_same_batch: Whether the batch is that of an earlier step.
    """
    dropout = probe.dropouts.result()
    if dropout is not None and not probe.holds_functions():
        yield dropout
    for result in (answers_are_repeatable(probe), drawn_values_carry_gradients(probe)):
        if result is not None:
            yield result
    yield from large_inputs_reach_a_layer(probe)
    yield from inputs_are_used(probe)
    yield from _of_its_functions(probe)
    settled = running_statistics_fit_the_batches(probe)
    if settled is not None:
        yield settled
    is_sequence, scored = False, [(loss, target) for loss in losses if (target := _target_of(loss)) is not None]
    for loss, target in scored:
        for result in _of_a_loss(probe, loss, target, is_answer=any(loss is each for each in answered)):
            is_sequence |= result.check in (CAUSAL, COPIED)
            yield result
    for result in _of_picks(probe, picked):
        is_sequence = True
        yield result
    flat = (len(target) for loss, target in scored if loss.input.dim() <= 2 and target.numel() == len(target))
    samples = next(flat, None)
    yield from masked_positions_have_no_effect(probe)
    yield from more_padding_has_no_effect(probe)
    yield from padding_is_not_read_in_place_of_tokens(probe)
    yield from attention_is_over_the_tokens(probe)
    yield from future_begins_at_the_next_position(probe)
    is_ctc = any(loss.name == "ctc_loss" and loss.input.dim() > 2 for loss in losses)  # of samples that come first
    is_batched = (
        is_sequence or is_ctc or any(getattr(module, "batch_first", False) is True for module in probe.modules())
    )
    if is_same_batch:
        yield from _of_a_full_batch(probe, losses, answered, written)
    else:  # a full batch may be a graph, or a set
        mixing = samples_are_independent(probe, None if is_batched else samples, is_batched=is_batched)
        row = answers_do_not_depend_on_the_row(probe) if mixing is not None and mixing.outcome == "held" else None
        yield from (result for result in (mixing, row, samples_differ(probe)) if result is not None)
    yield from _of_its_flow(probe)


def checks_of_a_part(part: torch.nn.Module, call: ModelCall) -> list[CheckResult]:
    """Return what a copy of a part tells that a model hands its input to; nothing if it does not answer.

    Args:
        part: It answers with something for each sample, where its model returns a loss.
    """
    found: list[CheckResult] = []
    try:
        probe = ModelProbe(part, call)
        found += [*inputs_are_used(probe), *places_are_used(probe), *_of_its_functions(probe)]
        is_batched = all(output.dim() <= 2 for output in probe.base)  # one row for each sample, and none for a time
        mixing = samples_are_independent(probe, None, is_batched=is_batched)
        found += [] if mixing is None else [mixing]
        found += _of_its_flow(probe)
    except NotAnswered:
        pass
    return found


def _of_a_full_batch(
    probe: ModelProbe, losses: Sequence[LossSeen], answered: Sequence[LossSeen], written: Sequence[torch.Tensor]
) -> Iterator[CheckResult]:
    """Yield what rows and labels of a full batch tell, where one loss compares them: two may mix labels on purpose."""
    targets = [_target_of(loss) for loss in answered] if losses else list(written)
    if len(losses) <= 1 and len(targets) == 1 and targets[0] is not None and not targets[0].requires_grad:
        result = labels_belong_to_their_rows(probe, targets[0])
        if result is not None:
            yield result


def _target_of(loss: LossSeen) -> torch.Tensor | None:
    """Return what the predictions are compared with; None where that is computed, empty, large or one number."""
    target = loss.target
    if target is None or target.requires_grad or not 0 < target.numel() <= _MOST_ELEMENTS or not target.dim():
        return None
    return target


def _of_a_loss(probe: ModelProbe, loss: LossSeen, target: torch.Tensor, *, is_answer: bool) -> Iterator[CheckResult]:
    """Yield what a copy's answers and the target of a loss tell together."""
    options = loss.options
    ignored = int(options.get("ignore_index", -100))
    yield from targets_of_sequences(probe, target, ignored=ignored, first=first_compared(loss.input))
    yield from targets_in_columns(probe, target, is_answer=is_answer)
    yield from targets_begin_behind_the_input(probe, target)
    is_mean = options.get("reduction", "mean") == "mean" and options.get("weight") is None
    counted = padding_is_not_scored(probe, target, ignored=ignored, is_mean=is_mean)
    for result in (counted, ignored_tokens_end_rows(probe, target, ignored=ignored)):
        if result is not None:
            yield result


def _of_picks(probe: ModelProbe, picked: Sequence[torch.Tensor]) -> Iterator[CheckResult]:
    """Yield whether a model sees the tokens whose log-probabilities a loss picks; each of several heads has its own."""
    for tokens in picked:
        yield from (result for result in targets_of_sequences(probe, tokens) if result.check in (CAUSAL, COPIED))


def _of_its_functions(probe: ModelProbe) -> Iterator[CheckResult]:
    """Yield what the functions tell that a copy calls."""
    calls = noted_calls(probe, RESHAPES | CLAMPS | PERMUTES | PASSES)
    shapes = list(_reshaped(calls))
    samples = {len(tensor) for tensor in probe.call.tensors().values() if tensor.dim()}
    yield axes_are_not_exchanged_by_reshaping(shapes, samples)
    clamped = clamps_leave_values_free([call for call in calls if call.name in CLAMPS])
    yield from (result for result in (clamped, repeated_writes_are_added_up(probe)) if result is not None)


def _of_its_flow(probe: ModelProbe) -> Iterator[CheckResult]:
    """Yield what the way of values through a call tells; nothing where the time for checks is used up."""
    flow = flow_or_none(probe)
    if flow is not None:
        told = (straight_through_steps_pass_gradients(flow), chosen_codes_are_near(flow))
        yield from (result for result in told if result is not None)
    yield from scores_know_both_positions(probe)


def _reshaped(calls: Iterable[Noted]) -> Iterator[Reshape]:
    """Yield each reshape, but for tensors that were permuted to be mixed by it."""
    permuted: dict[int, torch.Size] = {}
    for call in calls:
        if call.name in PERMUTES:
            permuted[id(call.result)] = call.given.shape
        elif call.name in PASSES and id(call.given) in permuted:
            permuted[id(call.result)] = permuted[id(call.given)]
        elif call.name in RESHAPES:
            original = permuted.get(id(call.given))
            if original is None or not is_meant(original, call.result.shape):
                yield Reshape(call.given.shape, call.result.shape, call.module)


def checks_of_a_trained_copy(probe: ModelProbe, *, compares_directions: bool = False) -> list[CheckResult]:
    """Return what a copy tells when the training has gone on for a while.

    Args:
        compares_directions: Whether the loss divides answers by their norms.
    """
    clamped = clamps_leave_values_free(noted_calls(probe, CLAMPS))
    results = (
        outputs_differ(probe, compares_directions=compares_directions),
        running_statistics_fit_the_batches(probe),
        clamped,
    )
    return [result for result in results if result is not None]
