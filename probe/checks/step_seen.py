"""What is seen of a step at which checks run: calls of networks, losses and their graphs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

import torch

from ..guard import Guard
from .asked_derivatives import AskedDerivatives
from .bounded_outputs import NetworkCall, generator_can_reach_the_data, written_targets_can_be_reached
from .check_result import CheckResult
from .flow_checks import chained_maps_transform, weight_of_a_flow
from .frozen_answers import frozen_answers
from .judge_targets import judge_gets_two_targets
from .loss_checks import checks_of_the_graph
from .loss_graph import (
    cost_of_the_best_constant,
    loss_has_a_graph,
    loss_is_minimised,
    nodes_of_loss,
    origin_of,
    targets_of_squares,
)
from .makers_and_judges import conditions_in, makers_and_judges, slope_signs
from .model_call import ModelCall, outputs_of
from .parts_of_graph import UNKNOWN_PARTS, PartsOfGraph
from .picked_tokens import picked_tokens
from .policy_direction import PolicyDirection
from .random_numbers import generator_state
from .score_layout import no_sample_competes_with_itself, scores_keep_their_positions
from .step_direction import DOWNHILL, StepDirection
from .term_sizes import BY_ELEMENT, terms_have_a_share
from .trained_positions import TrainedPositions
from .unselected_places import unselected_places_are_not_scored

#: Losses, and calls of networks, that are kept of one step. Our choice.
MOST_LOSSES, MOST_CALLS = 8, 32
#: How the names of a graph's nodes begin that compute norms.
_NORMS: Final = ("LinalgVectorNorm", "NormBackward")


@dataclass(slots=True)
class LossSeen:
    """A call of a loss function in the step; `only` is the one value of its target, if it has only one."""

    name: str
    input: torch.Tensor
    target: torch.Tensor | None
    options: Mapping[str, Any]
    only: float | None = None
    result: torch.Tensor | None = None


@dataclass(slots=True)
class StepSeen:
    """What was seen of a step at which checks run.

    Args:
        calls: The first training call of each network, by site.
        outputs: Outputs of all training calls, with their graphs.
        losses: Calls of loss functions.
        entropies: Entropies of distributions that were asked for.
        policy: The products that were followed in its backward passes.
        generators: States of the host's random generator: as the step began, before its first forward, and after it.
        results: What the graphs have told.
        targets: Real numbers that outputs were compared with.
        flow: Where a loss is the likelihood of a normalising flow, what `weight_of_a_flow` returns.
        networks: All calls of the networks, in order.
        derivatives: What was asked for by `torch.autograd.grad`.
        parts: Tells which modules made a value.
        direction: Tells which way steps go.
        picked: Tokens whose log-probabilities a loss picks.
        positions: The positions of sequences that the step's losses train.
        compares_directions: Whether a loss divides what networks answer by its norm, as a cosine does.
    """

    calls: dict[str, ModelCall] = field(default_factory=dict)
    outputs: list[torch.Tensor] = field(default_factory=list)
    losses: list[LossSeen] = field(default_factory=list)
    entropies: list[torch.Tensor] = field(default_factory=list)
    policy: PolicyDirection = field(default_factory=PolicyDirection)
    results: list[CheckResult] = field(default_factory=list)
    passes: int = 0
    generators: list[bytes] = field(default_factory=list)
    targets: list[torch.Tensor] = field(default_factory=list)
    flow: float | None = None
    networks: list[NetworkCall] = field(default_factory=list)
    derivatives: AskedDerivatives = field(default_factory=AskedDerivatives)
    parts: PartsOfGraph = UNKNOWN_PARTS
    direction: StepDirection = DOWNHILL
    picked: list[torch.Tensor] = field(default_factory=list)
    positions: TrainedPositions = field(default_factory=TrainedPositions)
    compares_directions: bool = False

    @classmethod
    def under(cls, guard: Guard, parts: PartsOfGraph = UNKNOWN_PARTS, direction: StepDirection = DOWNHILL) -> Self:
        """Return what is seen of a step that begins; the guard takes what fails as the training runs."""
        policy, derivatives = PolicyDirection(guard), AskedDerivatives(guard)
        begun = [generator_state()]
        seen = cls(generators=begun, policy=policy, derivatives=derivatives, parts=parts, direction=direction)
        seen.positions = TrainedPositions(guard)
        return seen

    def take_root(self, root: torch.Tensor) -> bool:
        """Note whether a graph is behind the loss that is differentiated, and return that."""
        self.results.append(loss_has_a_graph(root))
        return root.grad_fn is not None

    def read(self, root: torch.Tensor) -> float | None:
        """Take what the graph of a loss tells; return the cost of the best constant answer, where that is known."""
        results = [(loss.name, loss.result) for loss in self.losses if loss.result is not None]
        nodes = nodes_of_loss(root, self.outputs)
        classes = [(loss.name, loss.target, loss.options) for loss in self.losses]
        places = unselected_places_are_not_scored(nodes or nodes_of_loss(root, ()), classes)
        self.results += [places] if places is not None else []
        if not nodes:
            if any(output is root for output in self.outputs):  # a model that returns its loss
                self.results += loss_is_minimised(root, results, self.parts, self.direction)
            return None
        self.compares_directions |= any(node.name().startswith(_NORMS) for node in nodes)
        batches = {output.shape[0] for output in self.outputs if output.dim()}
        self.picked += picked_tokens(nodes, self.outputs)
        squared = targets_of_squares(nodes, self.outputs)
        if squared is not None:
            self.targets.append(squared)
            reach = written_targets_can_be_reached(nodes, squared)
            self.results += [reach] if reach is not None else []
        given = [(loss.name, loss.input) for loss in self.losses]
        fits = [(loss.name, loss.input, loss.target) for loss in self.losses if loss.target is not None]
        plain = [(name, value, target) for name, value, target in fits if target.is_floating_point()]
        self.targets += [target for _, _, target in plain if not target.requires_grad]
        numbers = [(value, target) for name, value, target in plain if name in BY_ELEMENT]  # what a critic is fitted by
        self.policy.follow(nodes, numbers, self.direction)
        if self.flow is None:
            self.flow = weight_of_a_flow(root, self.outputs)
        self.results += loss_is_minimised(root, results, self.parts, self.direction)
        self.results += checks_of_the_graph(
            root, nodes, batches, given, self.entropies, self.parts, direction=self.direction
        )
        terms = [(loss.name, loss.result, loss.target) for loss in self.losses if loss.result is not None]
        for call, sign in slope_signs(root, self.networks, self.direction):
            call.signs.append(sign)
        share = terms_have_a_share(root, terms)
        self.results += [share] if share is not None else []
        return cost_of_the_best_constant(nodes, self.outputs)

    def losses_of(self, site: str) -> list[LossSeen]:
        """Return the losses whose prediction is all of an output of the network at this site, views left out."""
        outputs = [output for call in self.networks if call.site == site for output in call.outputs]
        made = {(origin_of(output.grad_fn), output.numel()) for output in outputs if output.grad_fn is not None}
        return [loss for loss in self.losses if _origin_and_size(loss.input) in made]

    def ranges(self) -> Iterator[CheckResult]:
        """Yield what a generator and its judge tell about each other, and which positions are trained."""
        yield from self.positions.results([*(loss.target for loss in self.losses), *self.picked])
        if len(self.losses) < MOST_LOSSES and len(self.networks) < MOST_CALLS:
            told = judge_gets_two_targets(self.networks, [(loss.input, loss.only) for loss in self.losses])
            yield from () if told is None else (told,)
        yield from generator_can_reach_the_data(self.networks)
        chained = chained_maps_transform(self.networks)
        yield from () if chained is None else (chained,)
        if len(self.networks) < MOST_CALLS:
            yield from makers_and_judges(self.networks)
            yield from frozen_answers(self.networks)

    def layouts(self) -> Iterator[CheckResult]:
        """Yield what the losses of class indices tell about the order of their arguments."""
        inputs = [item for call in self.calls.values() for item in call.tensors().items()]
        for loss in self.losses:
            if loss.name in ("cross_entropy", "nll_loss") and loss.target is not None:
                found = [scores_keep_their_positions(loss.input, loss.target, self.outputs, inputs)]
                found.append(no_sample_competes_with_itself(loss.input, loss.target))
                yield from (result for result in found if result is not None)


def _origin_and_size(prediction: torch.Tensor) -> tuple[Any, int]:
    """Return the node that made the values and their number; a column of a single one is the same values."""
    node, count = origin_of(prediction.grad_fn), prediction.numel()
    while node is not None and node.name().startswith("Select") and node.next_functions:
        node = origin_of(node.next_functions[0][0])
    return node, count


def network_call(
    site: str, module: torch.nn.Module, arguments: tuple[Any, ...], keywords: Any, output: Any
) -> NetworkCall:
    """Return a call of the network at this site, with its first argument if that is a tensor of real numbers."""
    first = arguments[0] if arguments else None
    is_real = isinstance(first, torch.Tensor) and first.layout is torch.strided and first.is_floating_point()
    given = first if is_real else None
    others = [*arguments[1:], *(keywords.values() if isinstance(keywords, dict) else ())]
    needs = [parameter.requires_grad for parameter in module.parameters()]
    return NetworkCall(
        site,
        given,
        tuple(outputs_of(output)),
        0 if given is None else given._version,
        conditions=conditions_in(others),
        is_taught=torch.is_grad_enabled(),
        is_frozen=bool(needs) and not any(needs),
        takes_gradient=any(isinstance(one, torch.Tensor) and one.requires_grad for one in (first, *others)),
    )
