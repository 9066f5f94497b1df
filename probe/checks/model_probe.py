"""A copy of a model that answers changed inputs, in evaluation mode, without any trace in the training."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..aside import checking, same_random_numbers
from ..guard import is_ours
from .evaluation_dropout import DropoutsSeen
from .kept_objects import tensors_of
from .loss_tape import tensors_in
from .model_call import ModelCall, outputs_of, whole_numbers_of
from .model_copy import NotCopied, bytes_of, copy_of
from .own_states import own_states, same_states
from .program_text.own_files import same_globals
from .write_guard import WriteGuard, WritesRefused

#: Largest model whose parameters are copied, 32 MiB: the copy lives for a moment, on the training's device. Our choice.
MOST_BYTES = 1 << 25
#: Outputs that are compared, and seconds that all calls of one occasion may take. Our choice.
_MOST_OUTPUTS, _MOST_S = 4, 1.0
#: For large models: seconds that a forward may take, how many more of them all calls of one occasion may take, and
#: elements of all outputs, 16 MiB as they are compared. Our choice: a step takes three forwards, and more.
_MOST_FORWARD_S, _MORE_FORWARDS, _MOST_ELEMENTS = 0.7, 8, 1 << 21
#: Seconds that may pass for one of this thread's own: on a busy machine most of them pass without any work of ours, and
#: on a device the work is done elsewhere. Our choice.
_WALL = 5.0
#: Relative to the size of the output: kernels may round differently from call to call.
_ROUNDING, _TIMES_THE_NOISE = 1e-5, 10.0
#: Share of their size by which outputs move at most if a model does not feel the scale of its input.
_BLIND = 0.05
#: Modules whose calls are kept.
_MOST_PARTS = 400


class NotAnswered(Exception):
    """The copy of the model could not be made or called; the message says why."""


class NotFinite(NotAnswered):
    """The copy answers with NaN or infinity.

    Attributes:
        outputs: What it answers.
    """

    def __init__(self, outputs: list[torch.Tensor]) -> None:
        super().__init__("the model's output is not finite")
        self.outputs = outputs


@dataclass(frozen=True, slots=True)
class PartCall:
    """The first call of a module of the copy: its name, and the tensors of its inputs and outputs."""

    name: str
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]


class ModelProbe:
    """Answers what a model's output would be for other inputs.

    The copy has no hooks but those of torch's own weight and spectral norms. All random generators are as before after
    each call, and start from the same numbers in each call. Buffers of the copy are put back. The copy of a large model
    shares its parameters, and operators that would write to them are refused.

    Args:
        model: The model; it is not called and not changed.
        call: A training call of it, with tensors that nobody else changes.

    Attributes:
        base: The outputs for the call as it is.
        noise: The largest distance between two answers to the same call.
        dropouts: What the copy dropped out in that call.

    Raises:
        NotAnswered: The model is too slow, cannot be copied, or does not answer twice alike.
        NotFinite: The model answers with NaN or infinity.
    """

    def __init__(self, model: torch.nn.Module, call: ModelCall) -> None:
        self.call = call = call.in_precision_of(model)  # copies are called without autocast
        self._spent_s, self._most_s = 0.0, _MOST_S
        is_large = bytes_of(model.parameters()) + bytes_of(model.buffers()) > MOST_BYTES
        self._guard = WriteGuard(model.parameters()) if is_large else None
        try:
            self._copy = copy_of(model, shares_parameters=is_large)
        except NotCopied as error:
            raise NotAnswered(str(error)) from error
        self._states = own_states(self._copy.modules())
        kept = (*self._copy.buffers(), *tensors_of(self._copy.modules()))
        self._buffers = [(buffer, buffer.clone()) for buffer in kept]
        self._whole_numbers: list[torch.Tensor] = []
        self.dropouts = DropoutsSeen()
        with self.dropouts:
            self.base = self._finite_answer(call)
        self._base_numbers = self._whole_numbers
        if is_large:
            self._check_speed()
        if not self.base:
            raise NotAnswered("the model returns no floating-point tensor")
        self.noise = max(_distance(again, output) for again, output in zip(self.answers({}), self.base, strict=True))
        self._sizes = [float(output.abs().max()) for output in self.base]
        if self.noise > 1e-3 * max(self._sizes):
            raise NotAnswered("the model does not answer the same call twice alike")

    def answers(self, changes: Mapping[str, torch.Tensor], *, with_gradients: bool = False) -> list[torch.Tensor]:
        """Return the outputs for the call with these tensors replaced.

        Raises:
            NotAnswered: The model refuses them, or the time for checks is used up.
            NotFinite: It answers with NaN or infinity, which it does not do for the call as it is.
        """
        if self._spent_s > self._most_s:
            raise NotAnswered(f"the calls took {self._spent_s:.1f} s, more than checks may take")
        return self._finite_answer(self.call.replaced(changes), with_gradients=with_gradients)

    def answers_drawn_anew(self) -> list[torch.Tensor]:
        """Return the outputs for the same call with other random numbers.

        Raises:
            NotAnswered: The model refuses, or the time for checks is used up.
        """
        if self._spent_s > self._most_s:
            raise NotAnswered(f"the calls took {self._spent_s:.1f} s, more than checks may take")
        return self._answer(self.call, seed=1)

    def answers_while_training(self) -> list[torch.Tensor]:
        """Return the outputs for the same call with all modules in training mode, with gradients.

        Raises:
            NotAnswered, NotFinite: As `answers` says.
        """
        with _in_training(list(self._copy.modules())):
            return self.answers({}, with_gradients=True)

    def slopes(self, name: str) -> torch.Tensor | None:
        """Return the gradient of the outputs, weighted at random, with respect to this input; None if there is none.

        Raises:
            NotAnswered: The model refuses it.
        """
        value = self.call.tensors()[name].clone().requires_grad_()
        with torch.backends.cudnn.flags(enabled=False):  # its recurrent layers have no gradient in evaluation mode
            outputs = self._answer(self.call.replaced({name: value}), with_gradients=True)
        with checking(), torch.enable_grad(), same_random_numbers(0):
            flowing = [output for output in outputs if output.requires_grad]
            if not flowing:
                return None
            total = torch.stack([(output * torch.randn_like(output)).sum() for output in flowing]).sum()
            return torch.autograd.grad(total, value, allow_unused=True)[0]

    def log_determinants(self, name: str, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the second output says of the first samples, and the Jacobians of the first output, `(N, D, D)`.

        Args:
            name: The input `(N, D)` of which the first output is a map.

        Raises:
            NotAnswered: The model refuses it.
        """
        value = self.call.tensors()[name].clone().requires_grad_()
        mapped, said = self._answer(self.call.replaced({name: value}), with_gradients=True)[:2]
        with checking(), torch.enable_grad():
            rows = [torch.autograd.grad(column.sum(), value, retain_graph=True)[0] for column in mapped.unbind(1)]
        return said.detach()[:samples], torch.stack(rows, 1)[:samples].double()

    def round_trips(self, methods: Sequence[str]) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
        """Return, of parts that return a map of their input and one number a sample, what an inverse makes of the map.

        Args:
            methods: Names of a method that is given the mapped tensor, and returns the input, alone or first.

        Returns:
            Name of the part, its input, and the inverse's answer; parts whose inverse cannot be called so are left out.

        Raises:
            NotAnswered: The time for checks is used up.
        """
        calls: dict[torch.nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}

        def keep(module: torch.nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
            if not isinstance(output, tuple | list) or len(output) != 2 or len(arguments) != 1:
                return
            given, mapped, number = arguments[0], output[0], output[1]
            if not all(isinstance(one, torch.Tensor) for one in (given, mapped, number)):
                return
            if mapped.shape == given.shape and number.shape in (given.shape[:1], ()):
                calls.setdefault(module, (given.detach(), mapped.detach()))

        parts = {module: name for name, module in self._copy.named_modules() if _method_of(module, methods)}
        with removed_after([module.register_forward_hook(keep) for module in parts]):
            self.answers({})
        found = []
        for module, (given, mapped) in calls.items():
            try:
                with self._quiet(0), self._guard or nullcontext():
                    answer = getattr(module, _method_of(module, methods))(mapped)
            except Exception as error:
                if is_ours(error) and not isinstance(error, WritesRefused):
                    raise
                continue
            first = answer[0] if isinstance(answer, tuple | list) and answer else answer
            if isinstance(first, torch.Tensor) and first.shape == given.shape:
                found.append((parts[module] or "the model", given.double(), first.double()))
        return found

    def calls_of_parts(self, changes: Mapping[str, torch.Tensor]) -> list[PartCall]:
        """Return the first call of each module inside of the model, in the order in which they end.

        Args:
            changes: Tensors that replace inputs of the call.

        Raises:
            NotAnswered: The model refuses them, or the time for checks is used up.
        """
        names = {module: name for name, module in self._copy.named_modules() if name}
        calls: dict[torch.nn.Module, PartCall] = {}

        def keep(module: torch.nn.Module, arguments: Any, keywords: Any, output: Any) -> None:
            if module not in calls and len(calls) < _MOST_PARTS:
                calls[module] = PartCall(names[module], _copies_in((arguments, keywords)), _copies_in(output))

        handles = [module.register_forward_hook(keep, with_kwargs=True) for module in names]
        with removed_after(handles):
            self.answers(changes)
        return list(calls.values())

    def inputs_of_layers(self) -> list[torch.Tensor]:
        """Return what the layers with a matrix of weights are given in the call.

        Raises:
            NotAnswered: The time for checks is used up.
        """
        given: list[torch.Tensor] = []

        def keep(_module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
            given.extend(each.detach() for each in arguments if isinstance(each, torch.Tensor))

        layers = [
            layer
            for layer in self._copy.modules()
            if any(each.dim() > 1 for each in layer.parameters(recurse=False))
            and not isinstance(layer, torch.nn.Embedding)
            and not any(True for child in layer.children() for _ in child.parameters())  # a model with a table beside
        ]
        with removed_after([module.register_forward_pre_hook(keep) for module in layers]):
            self.answers({})
        return given

    def reads_rows_in_turn(self, rows: int) -> bool:
        """Return whether a recurrent layer is given this many rows as the steps in time of a single sequence.

        Raises:
            NotAnswered: The time for checks is used up.
        """
        found = []

        def keep(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
            given = arguments[0] if arguments else None
            if isinstance(given, torch.Tensor) and isinstance(module, torch.nn.RNNBase):
                steps, sequences = (1, 0) if module.batch_first else (0, 1)
                is_one = given.dim() == 2 or (given.dim() == 3 and given.shape[sequences] == 1)
                found.append(is_one and given.shape[0 if given.dim() == 2 else steps] == rows)

        layers = [layer for layer in self._copy.modules() if isinstance(layer, torch.nn.RNNBase)]
        if layers:
            with removed_after([layer.register_forward_pre_hook(keep) for layer in layers]):
                self.answers({})
        return any(found)

    def inputs_while_training(self, modules: Sequence[Any]) -> list[tuple[Any, torch.Tensor]]:
        """Return each of these modules of the copy with what it is given while all of them are in training mode.

        Raises:
            NotAnswered: The time for checks is used up.
        """
        given: dict[torch.nn.Module, torch.Tensor] = {}

        def keep(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
            if isinstance(arguments[0], torch.Tensor) and arguments[0].dim() > 1:
                given.setdefault(module, arguments[0].detach())

        with removed_after([module.register_forward_pre_hook(keep) for module in modules]), _in_training(modules):
            self.answers({})
        return list(given.items())

    def is_blind_to_scale(self, name: str) -> bool:
        """Return whether the outputs hardly move if this input is twice as large, all batch norms using the batch."""
        norms = [module for module in self.modules() if isinstance(module, _BatchNorm)]
        with _in_training(norms):
            usual, doubled = (self.answers({name: factor * self.call.tensors()[name]}) for factor in (1.0, 2.0))
        pairs = [(float((one - two).norm()), float(one.norm())) for one, two in zip(usual, doubled, strict=True)]
        return all(moved <= _BLIND * size for moved, size in pairs)

    def moves(self, answers: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return how far each element of each output is from the base; differently shaped outputs are left out."""
        pairs = zip(answers, self.base, strict=False)
        return [(answer - output).abs() for answer, output in pairs if answer.shape == output.shape]

    def limit(self, at: int) -> float:
        """Return the distance up to which elements of that output count as equal."""
        return max(_TIMES_THE_NOISE * self.noise, _ROUNDING * self._sizes[at])

    def has_moved(self, answers: list[torch.Tensor], *, at_all: bool = False) -> bool:
        """Return whether any output is another one; `at_all`: by any amount above the noise."""
        if [answer.shape for answer in answers] != [output.shape for output in self.base]:
            return True
        distances = [float(move.max()) for move in self.moves(answers)]
        limits = [_TIMES_THE_NOISE * self.noise if at_all else self.limit(at) for at in range(len(distances))]
        return any(distance > limit for distance, limit in zip(distances, limits, strict=True))

    def has_other_numbers(self) -> bool:
        """Return whether the newest answer has other whole numbers than the first, as lengths that a model returns."""
        pairs = zip(self._whole_numbers, self._base_numbers, strict=False)
        return len(self._whole_numbers) != len(self._base_numbers) or not all(torch.equal(*pair) for pair in pairs)

    def holds_functions(self) -> bool:
        """Return whether modules hold functions of their own, which may call modules of the original in its mode."""
        values = (value for module in self._copy.modules() for value in vars(module).values())
        return any(isinstance(value, FunctionType | MethodType) for value in values)

    def modules(self) -> Iterator[torch.nn.Module]:
        """Iterate over the copy's modules."""
        yield from self._copy.modules()

    def named_modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Iterate over the copy's modules with their names."""
        yield from self._copy.named_modules()

    def _finite_answer(self, call: ModelCall, *, with_gradients: bool = False) -> list[torch.Tensor]:
        answers: list[torch.Tensor] = []
        for has_graph in (with_gradients, True):  # torch's fast paths without gradients differ where all is masked
            answers = self._answer(call, with_gradients=has_graph)
            if all(bool(torch.isfinite(answer).all()) for answer in answers):
                return answers if with_gradients else [answer.detach() for answer in answers]
        raise NotFinite([answer.detach() for answer in answers])  # which would compare as equal to anything

    def _answer(self, call: ModelCall, *, with_gradients: bool = False, seed: int = 0) -> list[torch.Tensor]:
        began, began_own = time.perf_counter(), time.thread_time()
        call = call.replaced({})  # some models write what they compute into a dictionary that they are given
        try:
            with self._quiet(seed), torch.set_grad_enabled(with_gradients), self._guard or nullcontext():
                answer = self._copy(*call.arguments, **call.keywords)
                outputs = list(outputs_of(answer))[:_MOST_OUTPUTS]
                self._whole_numbers = list(whole_numbers_of(answer))[:_MOST_OUTPUTS]
                self._check_size(outputs)
                return [output.double() for output in outputs]
        except NotAnswered:
            raise
        except Exception as error:
            if is_ours(error) and not isinstance(error, WritesRefused):
                raise
            raise NotAnswered(f"a copy of the model raised {type(error).__name__}: {error}") from error
        finally:
            for buffer, kept in self._buffers:
                buffer.data.copy_(kept)  # a graph that uses it may still be differentiated: its values are the same
            self._spent_s += max(time.thread_time() - began_own, (time.perf_counter() - began) / _WALL)

    @contextmanager
    def _quiet(self, seed: int) -> Iterator[None]:
        with checking(), same_random_numbers(seed), same_states(self._states), same_globals(), torch.no_grad():
            yield

    def _check_size(self, outputs: Sequence[torch.Tensor]) -> None:
        elements = sum(output.numel() for output in outputs)
        if self._guard is not None and elements > _MOST_ELEMENTS:
            raise NotAnswered(f"the model is large, and its outputs have {elements} elements, too many to compare")

    def _check_speed(self) -> None:
        """Give the calls of a large model as much time as its first forward tells."""
        if self._spent_s > _MOST_FORWARD_S:
            raise NotAnswered(f"the model is large, and a forward takes {self._spent_s:.1f} s, longer than checks may")
        self._most_s = _MOST_S + _MORE_FORWARDS * self._spent_s


def _distance(first: torch.Tensor, second: torch.Tensor) -> float:
    if first.shape != second.shape:
        raise NotAnswered("the model does not answer the same call twice alike")
    return float((first - second).abs().max())


def _copies_in(value: object) -> tuple[torch.Tensor, ...]:
    """Return copies of the strided tensors in a value."""
    plain = (one for one in tensors_in(value) if one.layout is torch.strided and not one.is_complex())
    return tuple(one.detach().clone() for one in plain)


def _method_of(module: torch.nn.Module, methods: Sequence[str]) -> str:
    """Return the first of these names that is a method of the module's own class; empty if none is."""
    return next((name for name in methods if callable(getattr(type(module), name, None))), "")


@contextmanager
def removed_after(handles: Sequence[Any]) -> Iterator[None]:
    """Remove these hooks after the block."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _in_training(modules: Sequence[Any]) -> Iterator[None]:
    """Have these modules of a copy in training mode, themselves and not their parts."""
    try:
        for module in modules:
            module.training = True
        yield
    finally:
        for module in modules:
            module.training = False
