"""Runs all checks that read the graph of one loss."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from .check_result import CheckResult
from .divergence_sign import divergence_is_lowered
from .loss_graph import advantages_are_constant, entropy_is_raised, pairs_are_compared_once, targets_are_constant
from .normalised_axes import vectors_are_normalised_one_by_one
from .parts_of_graph import PartsOfGraph
from .softmax_axis import softmax_is_over_the_classes
from .step_direction import DOWNHILL, StepDirection
from .twice_bounded import bounded_functions_are_applied_once


def checks_of_the_graph(
    root: torch.Tensor,
    nodes: Sequence[Any],
    batches: Collection[int],
    losses: Sequence[tuple[str, torch.Tensor]],
    entropies: Sequence[torch.Tensor],
    parts: PartsOfGraph,
    *,
    direction: StepDirection = DOWNHILL,
) -> Iterator[CheckResult]:
    """Yield what the graph between a loss and the models' outputs tells.

    Args:
        root: The loss.
        nodes: Of the graph (`nodes_of_loss`).
        batches: Samples of the batches that the models have answered.
        losses: Names and inputs of the loss functions that were called.
        entropies: Entropies of distributions that were asked for.
        parts: Tells which modules made a value.
        direction: Tells which way steps go.
    """
    checks: tuple[Callable[[], CheckResult | None], ...] = (
        lambda: pairs_are_compared_once(nodes, batches, parts),
        lambda: targets_are_constant(nodes),
        lambda: advantages_are_constant(nodes, parts),
        lambda: entropy_is_raised(root, entropies, direction),
        lambda: divergence_is_lowered(root.grad_fn, nodes, direction),
        lambda: softmax_is_over_the_classes(nodes, losses),
        lambda: vectors_are_normalised_one_by_one(nodes),
        lambda: bounded_functions_are_applied_once(nodes),
    )
    for check in checks:  # one by one: what fails costs none of those before
        result = check()
        if result is not None:
            yield result
