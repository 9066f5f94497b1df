"""What the graph of a loss tells: shapes that broadcast, targets with a gradient, a distance that is maximised."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch

from .check_result import CheckResult, broken, held
from .parts_of_graph import UNKNOWN_PARTS, PartsOfGraph
from .step_direction import DOWNHILL, StepDirection

ADVANTAGE, ENTROPY = "advantages_have_no_gradient", "entropy_is_raised"
_ADVANTAGE = "no gradient flows through the advantage of an action"
_ENTROPY = "a step raises the entropy of the policy where the loss names it"
BROADCAST, TARGET, MAXIMISED = "loss_compares_pairs_once", "targets_have_no_gradient", "loss_is_minimised"
_PAIRS = "the loss compares each prediction with its own target only"
_TARGET = "no gradient flows through the target of a temporal difference"
_MINIMISED = "the training lowers {name}"
#: Nodes that are visited from a loss back to the model's outputs.
_MOST_NODES = 600
_LOSSES = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss")
_DIFFERENCES = ("SubBackward0",)
_DISTANCES = ("MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0")
#: How the names of nodes begin that change the shape or the number format only.
SAME_VALUES = ("View", "Squeeze", "Unsqueeze", "Reshape", "ToCopy", "Expand", "Permute", "Transpose", "TBackward")
#: Nodes that leave rows what they are, and how many of them are gone through.
_KEEP_ROWS = (
    "Slice", "View", "UnsafeView", "Reshape", "ToCopy", "Clone", "Alias", "Mul", "Div", "LogSoftmax", "Transpose",
    "Permute",
)  # fmt: skip
_MOST_VIEWS = 12
_CHOICES = ("Gather", "Index", "Select", "LogSoftmax", "Logsumexp", "NllLoss")
#: What joins the values of a loop; steps between a logarithm and the softmax whose entry it is of. Our choice.
_JOINED, _A_FEW = ("Stack", "Cat"), 8
#: Nodes behind a factor that are looked at for the log-probability of a choice. Our choice.
_NEAR = 120
#: Loss functions that are distances: a training that raises one moves away from its targets.
_PLAIN_LOSSES = frozenset(
    {
        "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
        "smooth_l1_loss", "huber_loss", "ctc_loss", "gaussian_nll_loss",
    }
)  # fmt: skip

#: Half of the range of numbers without a sign.
_WRAPPED = 1 << 63
GRAPH = "the_loss_has_a_graph"
_GRAPH = "the backward pass starts from a value that was computed of something"

Node = Any  # torch types its graph's nodes as a protocol that lacks what is read here


def nodes_of_loss(root: torch.Tensor, outputs: Iterable[torch.Tensor]) -> list[Node]:
    """Return the nodes between a loss and these outputs of models, breadth first, without the outputs' own.

    None are returned if any holds tensors that a hook packs, as checkpointing does: reading them would compute anew.
    """
    stops = {output.grad_fn for output in outputs if output.grad_fn is not None}
    waiting, seen, found = [root.grad_fn], set(), list[Node]()
    while waiting and len(found) < _MOST_NODES:
        node = waiting.pop(0)
        if node is None or node in seen or node in stops:
            continue
        if is_packed(node):
            return []
        seen.add(node)
        found.append(node)
        waiting += [before for before, _ in node.next_functions]
    return found


def loss_has_a_graph(root: torch.Tensor) -> CheckResult:
    """Check that a backward pass does not start from a number that only claims to need a gradient."""
    if root.grad_fn is not None or isinstance(root, torch.nn.Parameter):
        return held(GRAPH, _GRAPH)
    return broken(
        GRAPH,
        _GRAPH,
        "the backward pass starts from a number without a graph, on which requires_grad was set: nothing is behind it",
    )


def plain_axis(saved: int, dims: int) -> int:
    """Return an axis that a node has saved, counted from the front; one below zero is saved without its sign."""
    return (saved - 2 * _WRAPPED if saved >= _WRAPPED else saved) % dims


def is_packed(node: Node) -> bool:
    """Return whether a node's saved tensors are packed by a hook, so that reading them would compute anew."""
    saved = (getattr(node, name) for name in dir(node) if name.startswith("_raw_saved_"))
    return any(_has_hook(tensor) for tensor in saved)


def _has_hook(saved: object) -> bool:
    if isinstance(saved, list | tuple):
        return any(map(_has_hook, saved))
    try:
        return getattr(saved, "unpack_hook", None) is not None
    except RuntimeError:  # torch says so where there is none
        return False


def pairs_are_compared_once(
    nodes: Sequence[Node], batches: Collection[int], parts: PartsOfGraph = UNKNOWN_PARTS
) -> CheckResult | None:
    """Check differences and products of predictions with constants: `(N, 1)` and `(N,)` make `(N, N)`.

    Args:
        batches: Samples N of the batches that the models have answered.
        parts: Tells which module made the predictions.
    """
    has_looked = False
    for node in nodes:
        if not node.name().startswith(("Sub", "Mul", "Div", "Add", *_LOSSES)):
            continue
        given = [(before, at) for before, at in node.next_functions]
        known = [(before, at) for before, at in given if before is not None]
        made = shape_of(node, 0)
        if len(given) != 2 or len(known) != 1:
            continue
        has_looked = True
        if node.name().startswith(_LOSSES) and known[0][0].name() == "ExpandBackward0":  # both are made of one shape
            made = shape_of(known[0][0], 0)
            known = [known[0][0].next_functions[0]]
        shape = shape_of(*known[0])
        batch = made[0] if made else 0
        if batch > 1 and batch in batches and made == (batch, batch) and shape in ((batch, 1), (1, batch), (batch,)):
            return _all_pairs(shape, made, batch).at(parts.maker_of(known[0][0]))
    written = _written_pairs(nodes, batches, parts)
    if written is not None:
        return written
    return held(BROADCAST, _PAIRS) if has_looked else None


def _all_pairs(shape: tuple[int, ...], made: tuple[int, ...], batch: int) -> CheckResult:
    return broken(
        BROADCAST,
        _PAIRS,
        f"predictions of shape {shape} and targets of a shape that broadcasts along them give {made}: each of "
        f"{batch} predictions is compared with all {batch} targets",
        samples=batch,
    )


def _written_pairs(nodes: Sequence[Node], batches: Collection[int], parts: PartsOfGraph) -> CheckResult | None:
    """Return a result for a mean of all squares, or distances, between each prediction and each target.

    Pairs that are summed up otherwise may be meant: those of kernels, of prototypes, of neighbours.
    """
    for node in nodes:
        if not node.name().startswith("MeanBackward0"):  # the mean of everything
            continue
        distance = node.next_functions[0][0]
        if distance is None or distance.name() not in ("PowBackward0", "AbsBackward0"):
            continue
        difference = distance.next_functions[0][0]
        if difference is None or difference.name() not in _DIFFERENCES:
            continue
        known = [(before, at) for before, at in difference.next_functions if before is not None]
        made = shape_of(difference, 0)
        batch = made[0] if made else 0
        if len(known) != 1 or batch < 2 or batch not in batches or made[:2] != (batch, batch):
            continue
        if known[0][0].name() == "ExpandBackward0":  # as l1_loss does
            known = [known[0][0].next_functions[0]]
        shape = shape_of(*known[0])
        if shape != made and shape in (made[1:], (1, *made[1:]), (batch, 1, *made[2:])):
            return _all_pairs(shape, made, batch).at(parts.maker_of(known[0][0]))
    return None


def cost_of_the_best_constant(nodes: Sequence[Node], outputs: Sequence[torch.Tensor]) -> float | None:
    """Return the mean squared error of the best constant answer, for a loss that is a plain mean of squares.

    Returns:
        The variance of its targets over all elements; None for any other loss, and for targets that are all equal.
    """
    targets = targets_of_squares(nodes, outputs)
    variance = 0.0 if targets is None else float(targets.var(correction=0))
    return variance if variance > 0.0 else None


def targets_of_squares(nodes: Sequence[Node], outputs: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return the targets of a plain mean of squares: the model's output less the difference that the graph holds.

    Returns:
        As the output is shaped, of double precision; None for any other loss.
    """
    names = [node.name() for node in nodes[:3]]
    if names != ["MeanBackward0", "PowBackward0", "SubBackward0"] or nodes[1]._saved_exponent != 2:
        return None
    given = [before for before, _ in nodes[2].next_functions]
    difference = nodes[1]._saved_self.detach().double().reshape(-1)
    if len(given) != 2 or given.count(None) != 1 or difference.numel() < 2:
        return None
    made = origin_of(next(before for before in given if before is not None))
    mine = (output for output in outputs if origin_of(output.grad_fn) is made)
    output = next((output for output in mine if output.numel() == difference.numel()), None)
    if output is None:
        return None
    values = output.detach().double().reshape(-1)
    return (values - difference if given[1] is None else values + difference).reshape(output.shape)


def targets_are_constant(nodes: Sequence[Node]) -> CheckResult | None:
    """Check differences of two values with gradients: none may be a bootstrapped target, such as r + gamma max Q.

    Such a target is a reward plus a share of the largest value, or of a value, of another input (Mnih et al. 2015,
    "Human-level control", algorithm 1: the target is a constant).
    """
    for node in nodes:
        if node.name() not in (*_DIFFERENCES, *_DISTANCES):
            continue
        given = [before for before, _ in node.next_functions[:2]]
        if len(given) < 2 or None in given:
            continue
        found = [_is_bootstrapped(before) for before in given]
        if found[0] != found[1]:
            return broken(
                TARGET,
                _TARGET,
                "the loss compares two values with gradients, and one is a constant plus a share of a value: the "
                "gradient also moves that target towards the prediction",
            )
    return None


def advantages_are_constant(nodes: Sequence[Node], parts: PartsOfGraph = UNKNOWN_PARTS) -> CheckResult | None:
    """Check products of the log-probability of a choice: the other factor may be no return minus a value with gradient.

    Such a gradient moves the value so that what was done looks worse or better, and not towards the return (Sutton et
    al. 2000: the baseline is a constant of the policy's gradient).
    """
    for node in nodes:
        given = [before for before, _ in node.next_functions]
        if node.name() != "MulBackward0" or len(given) != 2 or None in given:
            continue
        chosen = [is_of_a_choice(before) for before in given]
        if chosen[0] == chosen[1]:
            continue
        other = origin_of(given[chosen.index(False)])
        if other is not None and other.name() in _DIFFERENCES and _one_is_constant(other):
            return broken(
                ADVANTAGE,
                _ADVANTAGE,
                "the loss multiplies the log-probability of a choice by a constant minus a value with a gradient: the "
                "policy's loss also moves the value, away from what it is to predict",
            ).at(parts.makers_of(other))
    return None


def _one_is_constant(node: Node) -> bool:
    given = [before for before, _ in node.next_functions]
    return len(given) == 2 and given.count(None) == 1


def is_of_a_choice(node: Node) -> bool:
    """Return whether a node is made of an entry of log-probabilities, picked by index.

    Of many that a loop has stacked, the first is looked at.
    """
    waiting, names = [node], set[str]()
    for before in waiting:
        names.add(before.name())
        if _is_logarithm_of_an_entry(before):
            return True
        if len(waiting) < _NEAR:
            earlier = [each for each, _ in before.next_functions if each is not None]
            waiting += earlier[:1] if before.name().startswith(_JOINED) else earlier
    picks = any(name.startswith(_CHOICES[:3]) for name in names)
    is_one_of_all = any(name.startswith(_CHOICES[3:]) for name in names)
    return (picks and is_one_of_all) or any(name.startswith(_CHOICES[5:]) for name in names)


def _is_logarithm_of_an_entry(node: Node) -> bool:
    """Return whether an entry is picked of the logarithms of a softmax, or the logarithm taken of what is picked."""
    made = origin_of(node.next_functions[0][0]) if node.next_functions else None
    if node.name().startswith("Log1") or made is None:
        return False
    if node.name().startswith(_CHOICES[:3]):
        return bool(made.name() == "LogBackward0") and _is_of_a_softmax(made)
    picks = node.name() == "LogBackward0" and made.name().startswith(_CHOICES[:3])
    return picks and _is_of_a_softmax(made)


def _is_of_a_softmax(node: Node) -> bool:
    """Return whether a softmax is a few steps before: between them a clamp, a sum that is divided by, a pick."""
    for _ in range(_A_FEW):
        if node is None or node.name().startswith("Softmax"):
            return node is not None
        node = node.next_functions[0][0] if node.next_functions else None
    return False


def entropy_is_raised(
    root: torch.Tensor, entropies: Sequence[torch.Tensor], direction: StepDirection = DOWNHILL
) -> CheckResult | None:
    """Check the sign of the loss's derivative with respect to the entropies that the program asked for.

    A bonus for entropy keeps a policy from settling early (Williams & Peng 1991; Mnih et al. 2016, equation of 3C).
    """
    known = [entropy for entropy in entropies if entropy.requires_grad]
    if not known or not root.requires_grad:
        return None
    slopes = torch.autograd.grad(root, known, torch.ones_like(root), retain_graph=True, allow_unused=True)
    moved = [
        (entropy.grad_fn, float(slope.double().sum()))
        for entropy, slope in zip(known, slopes, strict=True)
        if slope is not None
    ]
    total = sum(direction.sign(node) * slope for node, slope in moved)
    if total > 0:
        size, uphill = sum(slope for _, slope in moved), direction.words(moved[0][0])
        words = f"the derivative of the loss with respect to the entropy is {size:.4g}{uphill}: a step lowers it"
        return broken(ENTROPY, _ENTROPY, words, slope=total)
    return held(ENTROPY, _ENTROPY, slope=total) if total < 0 else None


def _is_bootstrapped(node: Node) -> bool:
    """Return whether the node adds a constant to a share of a value: r + gamma V."""
    node = origin_of(node)
    if node is None or not node.name().startswith("AddBackward"):
        return False
    values = [before for before, _ in node.next_functions]
    if len(values) != 2 or values.count(None) != 1:
        return False
    share = origin_of(next(value for value in values if value is not None))
    for _ in range(3):  # gamma, and one minus the end of an episode
        if share is None or not share.name().startswith("MulBackward"):
            return False
        inner = [origin_of(before) for before, _ in share.next_functions if before is not None]
        if len(inner) != 1:
            return False
        if inner[0] is not None and not inner[0].name().startswith("MulBackward"):
            return True
        share = inner[0]
    return False


def origin_of(node: Node) -> Node:
    """Return the node that made the values, views left out."""
    for _ in range(8):
        if node is None or not node.name().startswith(SAME_VALUES) or not node.next_functions:
            return node
        node = node.next_functions[0][0]
    return node


def views_behind(tensor: torch.Tensor) -> Iterator[Node]:
    """Yield the nodes that lead to a tensor, newest first, as long as each row of them is one row of the tensor.

    They are views, slices, and changes of scale or dtype.
    """
    node = tensor.grad_fn
    for _ in range(_MOST_VIEWS):
        if node is None or not node.name().startswith(_KEEP_ROWS) or not node.next_functions:
            return
        yield node
        node = node.next_functions[0][0]


def loss_is_minimised(
    root: torch.Tensor,
    losses: Sequence[tuple[str, torch.Tensor]],
    parts: PartsOfGraph = UNKNOWN_PARTS,
    direction: StepDirection = DOWNHILL,
) -> Iterator[CheckResult]:
    """Check the sign of the loss's derivative with respect to each loss function's result.

    Args:
        losses: Names and results of the loss functions that were called since the last backward pass.
        parts: Tells which modules made what a loss function was given.
        direction: Tells which way steps go.
    """
    plain = [
        (name, result)
        for name, result in losses
        if name in _PLAIN_LOSSES and result.requires_grad and result.numel() == 1  # others may be weighted one by one
    ]
    if not plain or not root.requires_grad:
        return
    results = [result for _, result in plain]
    grown = torch.ones_like(root)
    slopes = torch.autograd.grad(root, results, grown, retain_graph=True, allow_unused=True)
    for (name, result), slope in zip(plain, slopes, strict=True):
        if slope is None:
            continue
        claim, size = _MINIMISED.format(name=name), float(slope.detach().double().sum())
        total = direction.sign(result.grad_fn) * size
        if total < 0:
            value, uphill = float(result.detach().double().mean()), direction.words(result.grad_fn)
            words = f"the derivative of the loss with respect to {name} is {size:.4g}{uphill}: a step raises it"
            found = broken(MAXIMISED, claim, words, subject=name, slope=total, value=value, terms=len(plain))
            yield found.at(parts.makers_of(result.grad_fn))
        elif total > 0:
            yield held(MAXIMISED, claim, subject=name, slope=total)


def shape_of(node: Node, at: int) -> tuple[int, ...]:
    """Return the shape of an output of a node; empty if it is not known."""
    metadata = getattr(node, "_input_metadata", None)
    return tuple(metadata[at].shape) if metadata is not None and at < len(metadata) else ()
