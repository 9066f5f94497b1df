"""Gathers, in the first steps of a torch training, the facts that tell what kind of training it is."""

import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec
from weakref import ref

import torch
from torch.distributions import Categorical, Normal

from ....storage.training_kinds import TrainingKind
from ...aside import is_aside
from ...checks.function_mode import is_transformed
from ...checks.loss_graph import is_of_a_choice
from ...facts.training_kind import KindFacts, recognised
from ...recording.recorder import Recorder
from .torch_learners import Learners
from .torch_networks import ids_of, parameter_ids
from .torch_parameters import TorchView
from .torch_patches import PatchedFunctions, report
from .torch_tensors import is_remote

#: The last step that is looked at. Our choice: what a training calls, it calls in each of its first steps.
_LAST: Final = 8
#: Packages of environments, and of trainings in them.
_ENVIRONMENTS: Final = ("gymnasium", "gym", "pettingzoo", "stable_baselines3", "torchrl", "minigrid", "ale_py")
#: Nodes of a graph that are looked at to find a loss that is written out.
_MOST_NODES: Final = 24
#: Operations at the end of a graph that spell a loss of numbers.
_LAST_NODES: Final = 4
#: Elements of a target that are looked at, mean and deviation within which they pass for normal noise: six standard
#: errors of 256 draws.
_SAMPLED, _MEAN_ERROR, _STD_ERROR = 4096, 0.375, 0.27
_FEWEST: Final = 256


#: Standard errors up to which the product of neighbours is none. Our choice.
_NEIGHBOURS: Final = 5.0
#: Share of the labels that are tokens of the text where most are. Our choice.
_MOSTLY: Final = 0.5
#: Attributes of a distribution that a model may have made.
_PARAMETERS: Final = ("logits", "probs", "loc", "scale")
_Arguments = ParamSpec("_Arguments")


def _safely(method: Callable[Concatenate[Any, _Arguments], None]) -> Callable[Concatenate[Any, _Arguments], None]:
    """Return the method so that the training does not feel it fail: the kind is not known then."""

    @wraps(method)
    def call(self: Any, /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> None:
        if not self.is_looking or is_aside():
            return
        try:
            method(self, *arguments, **options)
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            self.guard.check_failed(error)
            self.remove()

    return call


class TorchKind:
    """The kind of one training; listens to distributions and data loaders of the process.

    Attributes:
        guard: Takes what its methods raise.
        is_looking: Whether it wants to hear of anything.
    """

    def __init__(self, recorder: Recorder, view: TorchView, learners: Learners) -> None:
        self.guard = recorder.guard
        self._recorder, self._view, self._learners = recorder, view, learners
        self._facts, self._given = KindFacts(), recorder.config.kind or ""
        self._told: TrainingKind | None = None
        self._inputs: list[Any] = []
        self._before: list[tuple[ref[Any], int]] = []
        self._copied: list[ref[torch.nn.Module]] = []
        self._largest, self._asked = 0, 0
        self.is_looking = True
        self._early = EarlyCalls()
        _kinds.append(self)

    @property
    def name(self) -> str:
        """Name of the kind as far as it is known; empty before."""
        return "" if self._told is None else self._told.name

    def remove(self) -> None:
        """Listen no longer."""
        self.is_looking = False
        self._inputs = []
        self._early.stop()
        if self in _kinds:
            _kinds.remove(self)

    @_safely
    def forward_begins(self, inputs: tuple[Any, ...], *, is_recording: bool) -> None:
        """Note what a network is called with."""
        given = [one for one in inputs if isinstance(one, torch.Tensor)]
        if not given:
            return
        size = len(given[0]) if given[0].dim() else 1
        if is_recording:
            self._largest = max(self._largest, size)
            self._inputs += given
        else:
            self._asked = size

    @_safely
    def loss_called(self, name: str, input_: Any, target: Any) -> None:
        """Note a loss function that is called with gradients."""
        facts = self._facts
        facts.losses.add(name)
        facts.written.discard(name)
        if input_.dim() == 2 and name == "cross_entropy":
            rows, columns = input_.shape
            facts.is_square |= rows == columns >= 4 and _is_a_permutation(target, rows)
        facts.takes_choices |= _made_by_choice(input_)
        if not isinstance(target, torch.Tensor) or not target.numel():
            return
        if target.is_floating_point():
            self._look_at_numbers(input_, target)
        else:
            ids = [one for one in self._inputs if not one.is_floating_point() and one.dim() > 1 and not is_remote(one)]
            facts.has_tokens = facts.has_tokens or any(_are_tokens(target, one) for one in ids)

    def _look_at_numbers(self, input_: Any, target: Any) -> None:
        facts, given = self._facts, self._inputs
        facts.target_is_input |= any(one.data_ptr() == target.data_ptr() and one.numel() > 1 for one in given)
        is_judging = bool(input_.dim()) and input_.numel() == len(input_) > 1
        if target.requires_grad or is_remote(target):
            facts.judges |= is_judging
            return
        sample = target.detach().reshape(-1)[:_SAMPLED].float()
        low, high = float(sample.min()), float(sample.max())
        if low == high:
            facts.constants.add(1.0 if low > 0.5 else 0.0)
        else:
            facts.judges |= is_judging
        same_shape = any(one.shape == target.shape for one in given) and len(given) > 1
        if same_shape and sample.numel() >= _FEWEST and input_.shape == target.shape:
            is_centred = abs(float(sample.mean())) < _MEAN_ERROR * (_FEWEST / sample.numel()) ** 0.5
            is_unit = abs(float(sample.std()) - 1.0) < _STD_ERROR * (_FEWEST / sample.numel()) ** 0.5
            is_normal = is_centred and is_unit and low < -1.5 < 1.5 < high
            facts.target_is_noise = facts.target_is_noise or (is_normal and _has_no_neighbours(target.detach()))

    @_safely
    def backward_begins(self, root: Any) -> None:
        """Look for losses that the program writes out in the graph that is about to be differentiated."""
        node = getattr(root, "grad_fn", None)
        if node is None:
            return
        names, last, weighs = _spelling(node)
        facts = self._facts
        facts.functions |= names & {"logsigmoid", "softplus"}
        if not facts.losses:
            if last & {"pow", "square"} and last & {"sub", "rsub"} and last & {"mean", "sum"}:
                facts.written.add("mse_loss")
            elif "abs" in last and last & {"sub", "rsub"}:
                facts.written.add("l1_loss")
        is_chosen = bool(names & {"gather", "index", "select"})  # a sum of a logsumexp is any mixture
        is_choice = ("logsoftmax" in names and (is_chosen or "sum" in names)) or ("logsumexp" in names and is_chosen)
        facts.weighs_choices |= is_choice and weighs
        if is_choice and not weighs and not facts.losses | facts.written:
            facts.written.add("nll_loss")
        facts.losses |= facts.written

    @_safely
    def gradients_asked(self, inputs: tuple[Any, ...], *, create_graph: bool) -> None:
        """Note what `torch.autograd.grad` is asked for."""
        mine = {id(one) for one in self._view.parameters}
        shapes = {one.shape for one in self._view.parameters}  # of what an inner loop makes of parameters, too
        of_parameters = any(id(one) in mine or (not one.is_leaf and one.shape in shapes) for one in inputs if one.dim())
        of_inputs = any(one is given or _is_joined(one, given) for one in inputs for given in self._inputs)
        self._facts.differentiates_input |= create_graph and of_inputs
        self._facts.differentiates_steps |= create_graph and of_parameters and not of_inputs

    @_safely
    def scored(self, kind: str, distribution: Any, value: Any) -> None:
        """Note a log-probability that can be differentiated."""
        if isinstance(value, torch.Tensor) and value.requires_grad and kind == "Normal":
            if not any(getattr(distribution, name).requires_grad for name in ("loc", "scale")):
                self._facts.fitted.add(kind)
        elif any(
            vars(distribution)[name].requires_grad for name in ("logits", "probs", "loc") if name in vars(distribution)
        ):
            self._facts.scored.add(kind)

    @_safely
    def step_ends(self) -> None:
        """Tell the kind if it is another now, at the end of some of the first steps."""
        facts, step = self._facts, self._recorder.current.step
        given, before = self._inputs, [(one(), version) for one, version in self._before]
        is_same = bool(given) and all(
            _is_whole(one) and any(one is earlier and earlier._version == version for earlier, version in before)
            for one in given
        )
        facts.same = facts.same + 1 if is_same else 0
        self._before, self._inputs = [(ref(one), one._version) for one in given], []
        facts.acting += 0 < self._asked < self._largest
        facts.steps += 1
        self._asked = 0
        self._tell()
        if step >= _LAST:
            self.remove()

    def copied(self, network: torch.nn.Module) -> None:
        """Note that the network has a copy which no optimizer holds."""
        self._copied.append(ref(network))

    def _is_entered(self, followed: ref[torch.nn.Module]) -> bool:
        """Return whether the loss of one optimizer reaches the network, which another steps."""
        network = followed()
        mine = set[int]() if network is None else ids_of(network)
        entered = [one for one in self._view.optimizers if id(one) in self._learners.entered]
        return any(not mine.isdisjoint(parameter_ids(one)) for one in entered)

    def _frozen_share(self) -> float:
        """Return the share of elements that are frozen; of several optimizers each freezes the others' for a while."""
        held: set[int] = set()
        if len(self._view.optimizers) > 1:
            groups = [group for optimizer in self._view.optimizers for group in optimizer.param_groups]
            held = {id(one) for group in groups for one in group["params"]}
        total = sum(one.numel() for one in self._view.parameters)
        frozen = [one for one in self._view.parameters if not (one.requires_grad or id(one) in held)]
        trained = Counter(one.shape for one in self._view.parameters if one.requires_grad)
        if len(frozen) > 1 and Counter(one.shape for one in frozen) <= trained:
            return 0.0  # a copy of what is trained: a teacher, or a target
        share: float = sum(one.numel() for one in frozen) / max(1, total)
        return share

    def learners_changed(self) -> None:
        """Tell the kind if it is another now that there is another learner, at whatever step."""
        with self.guard.quietly():
            self._tell()

    def _tell(self) -> None:
        facts = self._facts
        facts.optimizers = len(self._view.optimizers)
        facts.is_entangled = bool(self._learners.entered)
        facts.has_slow_critic |= any(map(self._is_entered, self._copied))
        facts.has_environment = any(name in sys.modules for name in _ENVIRONMENTS)
        facts.has_loader, facts.drawn = _seen.loaders > 0, set(_seen.drawn)
        if not facts.frozen_share:
            facts.frozen_share = self._frozen_share()
        found = recognised(facts)
        if self._given:
            found = TrainingKind(self._given, (), found.is_full_batch, found.is_fine_tuning, is_given=True)
        is_worth_telling = found.name not in ("", "other") or found.is_full_batch or found.is_fine_tuning
        if found != self._told and is_worth_telling:
            self._told = found
            self._recorder.event("training_kind", "", **found.to_data())


def _is_whole(tensor: Any) -> bool:
    """Return whether the tensor is data, and all that its memory holds: no slice of more."""
    if not tensor.is_leaf or tensor.layout is not torch.strided:
        return bool(tensor.is_leaf)  # a sparse one has no memory of its own to be a part of
    return bool(tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes())


def _is_joined(column: torch.Tensor, given: torch.Tensor) -> bool:
    """Return whether an input was made by joining this column with others, as `cat([x, t], 1)`."""
    node = given.grad_fn
    parts = node.next_functions if node is not None and node.name().startswith(("Cat", "Stack")) else ()
    own = column.grad_fn
    return any(part is own if own is not None else getattr(part, "variable", None) is column for part, _ in parts)


def _has_no_neighbours(values: Any) -> bool:
    """Return whether standardised values tell nothing of those beside them, along any axis but that of the samples."""
    some = values[: max(1, _SAMPLED // max(1, values[0].numel()))].float()
    for axis in range(1, some.dim()):
        products = some.narrow(axis, 1, some.shape[axis] - 1) * some.narrow(axis, 0, some.shape[axis] - 1)
        if products.numel() and abs(float(products.mean())) > _NEIGHBOURS / products.numel() ** 0.5:
            return False
    return True


def _is_a_permutation(target: Any, rows: int) -> bool:
    if not isinstance(target, torch.Tensor) or target.is_floating_point() or is_remote(target):
        return False
    return target.dim() == 1 and sorted(target.tolist()) == list(range(rows))


def _are_tokens(target: torch.Tensor, ids: torch.Tensor) -> bool:
    """Return whether the labels are the tokens that follow, or those that the input hides; either axis may be time."""
    if is_remote(target) or not 0 <= ids.numel() - target.numel() <= max(len(ids), ids.shape[1]):
        return False
    given, told = ids.detach().flatten(1), target.detach()
    ways = []
    if not told.numel() % len(given):
        ways.append((given, told.reshape(len(given), -1)))
    if not told.numel() % given.shape[1]:
        ways.append((given.T, told.reshape(-1, given.shape[1]).T))
    return any(_repeat_tokens(labels, tokens) for tokens, labels in ways)


def _repeat_tokens(labels: torch.Tensor, tokens: torch.Tensor) -> bool:
    width, commonest = labels.shape[1], tokens.flatten().mode().values  # padding tells nothing
    for shift in (1, 0):
        part = tokens[:, shift : shift + width]
        mine = labels[:, : part.shape[1]]
        is_told = (mine >= 0) & (part != commonest)
        if bool(is_told.any()) and bool((mine == part)[is_told].float().mean() > _MOSTLY):
            return True
    is_asked = labels >= 0
    hidden = tokens[:, :width][is_asked]
    is_part = 0 < hidden.numel() < _MOSTLY * labels.numel()
    return is_part and bool((hidden == hidden.mode().values).float().mean() > _MOSTLY)


def _made_by_choice(tensor: Any) -> bool:
    """Return whether the values are entries of an output, picked by index."""
    node = tensor.grad_fn
    for _ in range(4):
        if node is None:
            return False
        name = type(node).__name__
        if name.startswith("Gather"):
            return True
        if not name.startswith(("Squeeze", "View", "Unsafe", "Reshape", "Unsqueeze", "Select")):
            return False
        node = node.next_functions[0][0]
    return False


def _spelling(root: Any) -> tuple[set[str], set[str], bool]:
    """Return the operations near the end of a graph and the last few; and whether values are weighed from outside."""
    names: set[str] = set()
    last: set[str] = set()
    waiting, weighs = [root], False
    for node in waiting:
        name = type(node).__name__.partition("Backward")[0].lower().strip("_")
        if name == "mul" and len({earlier for earlier, _ in node.next_functions}) == 1:
            name = "square"
        if name != "logsigmoid" or _is_of_a_difference(node):
            names.add(name)
        if len(last) < _LAST_NODES:
            last.add(name)
        before = [earlier for earlier, _ in node.next_functions]
        if name == "mul" and None in before:
            other, chosen = (node._saved_other, before[0]) if before[0] is not None else (node._saved_self, before[1])
            is_weight = other is not None and other.dim() > 0 and other.numel() > 1 and not _is_mask(other)
            weighs = weighs or (is_weight and chosen is not None and is_of_a_choice(chosen))
        if len(waiting) < _MOST_NODES and name not in ("addmm", "mm", "convolution", "embedding"):
            waiting += [earlier for earlier in before if earlier is not None]
    return names, last, weighs


def _is_mask(values: torch.Tensor) -> bool:
    """Return whether all values are zero or one."""
    return bool(((values == 0) | (values == 1)).all())


def _is_of_a_difference(node: Any) -> bool:
    """Return whether what goes in is a difference, perhaps scaled: of two answers, of which one is preferred."""
    for _ in range(_LAST_NODES):
        node = node.next_functions[0][0]
        name = type(node).__name__.partition("Backward")[0].lower()
        if name in ("sub", "rsub"):
            return True
        if node is None or not name.startswith(("mul", "div", "neg", "view", "squeeze", "reshape")):
            return False
    return False


class _SeenBefore:
    """What the process has called since somebody began to watch it, also before there was a model to watch.

    Attributes:
        loaders: How often a data loader was iterated.
        drawn: Distributions that were drawn from.
    """

    def __init__(self) -> None:
        self.loaders = 0
        self.drawn: set[str] = set()


_seen = _SeenBefore()


def _watched_draw(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def sample(self: Any, *arguments: Any, **options: Any) -> Any:
            if not torch.compiler.is_compiling():
                _seen.drawn.add(kind)
            return original(self, *arguments, **options)

        return sample

    return build


def _watched_score(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def log_prob(self: Any, value: Any) -> Any:
            result = original(self, value)
            if not (torch.compiler.is_compiling() or is_transformed()) and _kinds and result.requires_grad:
                report(_kinds, "scored", kind, self, value)
            return result

        return log_prob

    return build


def _watched_iteration(original: Callable[..., Any]) -> Callable[..., Any]:
    def iterate(self: Any) -> Any:
        _seen.loaders += 1
        return original(self)

    return iterate


def _patch() -> None:
    _seen.loaders = 0
    _seen.drawn.clear()
    for kind in (Categorical, Normal):
        _calls.put(kind, "sample", _watched_draw(kind.__name__))
        _calls.put(kind, "log_prob", _watched_score(kind.__name__))
    _calls.put(torch.utils.data.DataLoader, "__iter__", _watched_iteration)


_calls: PatchedFunctions[object] = PatchedFunctions(_patch)
_kinds: list[TorchKind] = []


class EarlyCalls:
    """Notes what a script calls before it trains a model."""

    def __init__(self) -> None:
        _calls.add(self)

    def stop(self) -> None:
        """Note no more."""
        _calls.remove(self)
