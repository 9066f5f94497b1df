"""What a mutant does at run time: this file is copied beside it, so it imports torch and nothing of ours.

Functions without arguments wrap a call of torch for the rest of the process; the program calls the others itself.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.utils.data import DataLoader

_OPTIMIZERS = (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.NAdam, optim.RAdam)


def reached() -> None:
    """Leave a mark beside the mutant: what is planted was run, so the mutant is one."""
    Path(__file__).with_name("reached").touch()


# Parameters on their way into an optimizer: `Adam(planted.zeroed(model.parameters()))`.


def _each(parameters: Iterable[Any], change: Callable[[Tensor], Any]) -> list[Any]:
    reached()
    given = list(parameters)
    with torch.no_grad():
        for entry in given:
            inner = entry["params"] if isinstance(entry, dict) else [entry[1] if isinstance(entry, tuple) else entry]
            if isinstance(entry, dict):
                entry["params"] = inner = [inner] if isinstance(inner, Tensor) else list(inner)
            for parameter in inner:
                change(parameter)
    return given


def zeroed(parameters: Iterable[Any]) -> list[Any]:
    """Return the parameters after setting each to zero."""
    return _each(parameters, lambda parameter: parameter.zero_())


def constant(parameters: Iterable[Any]) -> list[Any]:
    """Return the parameters after giving every weight the same value, so that units are alike."""
    return _each(parameters, lambda parameter: parameter.fill_(0.05) if parameter.dim() > 1 else None)


def enlarged(parameters: Iterable[Any]) -> list[Any]:
    """Return the parameters after multiplying each weight by twelve."""
    return _each(parameters, lambda parameter: parameter.mul_(12.0) if parameter.dim() > 1 else None)


def shrunk(parameters: Iterable[Any]) -> list[Any]:
    """Return the parameters after multiplying each weight by a hundredth."""
    return _each(parameters, lambda parameter: parameter.mul_(0.01) if parameter.dim() > 1 else None)


def without_fire(parameters: Iterable[Any]) -> list[Any]:
    """Return the parameters after moving every bias far below zero."""
    return _each(parameters, lambda parameter: parameter.sub_(4.0) if parameter.dim() == 1 else None)


def frozen(parameters: Iterable[Any]) -> list[Any]:
    """Return the parameters after freezing the first half of them."""
    given = list(parameters)
    half = {id(parameter) for parameter in given[: max(1, len(given) // 2)] if isinstance(parameter, Tensor)}
    return _each(given, lambda parameter: parameter.requires_grad_(id(parameter) not in half))


def halved(parameters: Iterable[Any]) -> list[Any]:
    """Return the second half of the parameters."""
    given = _each(parameters, lambda parameter: None)
    return given[max(1, len(given) // 2) :] or given


def of_a_copy(parameters: Iterable[Any]) -> list[Any]:
    """Return copies of the parameters, which the model does not use."""
    return [copy.deepcopy(parameter) for parameter in _each(parameters, lambda parameter: None)]


# Values of the program: `loss_function(output, planted.shuffled(target))`.


def shuffled(target: Tensor) -> Tensor:
    """Return the targets of a batch in another order."""
    reached()
    return target[torch.randperm(len(target))]


def partly_shuffled(target: Tensor) -> Tensor:
    """Return the targets of a batch with four in ten from other samples."""
    chosen = (torch.rand(len(target)) < 0.4).view(-1, *[1] * (target.dim() - 1))
    return torch.where(chosen, shuffled(target), target)


def scaled(value: Any, factor: float, offset: float = 0.0) -> Any:
    """Return a floating-point tensor times a factor, anything else as it is."""
    if isinstance(value, Tensor) and value.is_floating_point():
        reached()
        return value * factor + offset
    return value


_calls = 0


def spoilt_now_and_then(value: Any) -> Any:
    """Return the value; every hundredth time a thousand times as large."""
    global _calls
    _calls += 1
    return scaled(value, 1000.0) if _calls % 100 == 60 else value


def repeated(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the first batch as often as there are batches."""
    first = None
    for batch in batches:
        reached()
        first = batch if first is None else first
        yield copy.copy(first)


def forgetful_step(optimizer: Any) -> None:
    """Drop the state of an optimizer."""
    reached()
    optimizer.state.clear()


# Calls of torch, wrapped for the rest of the process.


def negate_losses() -> None:
    """Every backward pass starts from the negated loss."""
    backward = Tensor.backward

    def climb(self: Tensor, *arguments: Any, **options: Any) -> Any:
        reached()
        return backward(-self, *arguments, **options)

    Tensor.backward = climb


def keep_gradients() -> None:
    """No optimizer and no module clears a gradient."""
    for kind in (optim.Optimizer, nn.Module):
        kind.zero_grad = lambda self, set_to_none=True: reached()


def step_nowhere() -> None:
    """No step of an optimizer changes a weight."""
    for kind in _OPTIMIZERS:
        kind.step = lambda self, closure=None: reached()


def change_options(**factors: float) -> None:
    """Multiply options of every optimizer: `lr=100.0`; an option of None is set instead: `weight_decay`."""
    add = optim.Optimizer.add_param_group

    def changed(self: Any, group: dict[str, Any]) -> None:
        reached()
        for name, factor in factors.items():
            value = group.get(name, self.defaults.get(name))
            if value is not None:
                group[name] = value * factor if name == "lr" else factor
        add(self, group)

    optim.Optimizer.add_param_group = changed


def change_parameters(by: Callable[[list[Any]], list[Any]]) -> None:
    """Pass the parameters of every group through a function of this file."""
    add = optim.Optimizer.add_param_group

    def changed(self: Any, group: dict[str, Any]) -> None:
        given = group["params"]
        group["params"] = by([given] if isinstance(given, Tensor) else list(given))
        add(self, group)

    optim.Optimizer.add_param_group = changed


def clip_to_nothing() -> None:
    """Every clipping of a norm clips to one millionth."""
    clip = nn.utils.clip_grad_norm_

    def clipped(parameters: Any, max_norm: float, *arguments: Any, **options: Any) -> Any:
        reached()
        return clip(parameters, 1e-6, *arguments, **options)

    nn.utils.clip_grad_norm_ = clipped
    nn.utils.clip_grad.clip_grad_norm_ = clipped


def evaluate_always() -> None:
    """Every module stays in evaluation mode."""
    train = nn.Module.train

    def stay(self: nn.Module, mode: bool = True) -> nn.Module:
        reached()
        return train(self, False)

    nn.Module.train = stay


def train_always() -> None:
    """No module ever enters evaluation mode."""
    train = nn.Module.train

    def stay(self: nn.Module, mode: bool = True) -> nn.Module:
        if not mode:
            reached()
        return train(self, True)

    nn.Module.train = stay


def drop_out_nearly_all() -> None:
    """Every dropout drops nine in ten."""
    dropout = functional.dropout

    def dropped(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        reached()
        return dropout(input, 0.9, training, inplace)

    functional.dropout = dropped


def remove_activations() -> None:
    """Every ReLU, GELU and SiLU returns its input."""

    def same(input: Tensor, *arguments: Any, **options: Any) -> Tensor:
        reached()
        return input

    for name in ("relu", "gelu", "silu"):
        setattr(functional, name, same)
    for kind in (nn.ReLU, nn.GELU, nn.SiLU):
        kind.forward = lambda self, input: same(input)


def normalise_twice() -> None:
    """Every cross-entropy is given probabilities where logits belong."""
    cross_entropy = functional.cross_entropy

    def doubled(input: Tensor, *arguments: Any, **options: Any) -> Tensor:
        reached()
        return cross_entropy(torch.softmax(input, 1), *arguments, **options)

    functional.cross_entropy = doubled


def _change_batches(change: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
    begin = DataLoader.__iter__
    DataLoader.__iter__ = lambda self: change(begin(self))


def _shuffled_labels(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        if isinstance(batch, list | tuple) and len(batch) > 1 and isinstance(batch[-1], Tensor):
            yield [*batch[:-1], shuffled(batch[-1])]
        elif isinstance(batch, dict) or hasattr(batch, "data"):
            name = next((name for name in ("labels", "label", "target", "y") if name in batch), None)
            if name is not None:
                batch[name] = shuffled(batch[name])
            yield batch
        else:
            yield batch


def shuffle_labels() -> None:
    """Every loader permutes the targets within the batch."""
    _change_batches(_shuffled_labels)


def repeat_batches() -> None:
    """Every loader gives its first batch again and again."""
    _change_batches(repeated)


def _large(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        if isinstance(batch, list | tuple):
            yield [scaled(batch[0], 255.0), *batch[1:]]
        elif isinstance(batch, dict):
            yield {name: value if "label" in name else scaled(value, 255.0) for name, value in batch.items()}
        else:
            yield scaled(batch, 255.0)


def enlarge_inputs() -> None:
    """Every loader gives floating-point inputs 255 times as large."""
    _change_batches(_large)
