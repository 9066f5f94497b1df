"""Values that a training makes and never reads, told by what makes them and where, whatever their purpose is called."""

import ast
import re
from typing import Final

from .bindings import Binding, Function, called, goes_backward
from .names import REWARDS, words_of
from .trees import walked

__all__ = ["is_method", "is_needed_by_loss", "is_product"]

#: Classes whose `fit` learns how data are prepared.
_PREPARING: Final = re.compile(r"scaler|standard|normali|whiten|encoder|transformer$|pca", re.IGNORECASE)
_NEXT: Final = frozenset({"next", "nxt", "prime"})
_STATES: Final = frozenset({"obs", "observation", "observations", "state", "states", "s", "o"})
_SHORT_NEXT: Final = frozenset({"s2", "ns", "s1", "sp", "obs2", "o2", "s_next", "s_prime"})
_DISCOUNTED: Final = frozenset({"gamma", "discount", "discounts"})
#: What a function makes for the model to be called with.
_INPUTS: Final = frozenset(
    {
        "inputs", "input_ids", "masked", "masked_ids", "masked_inputs", "noisy", "noised", "corrupted", "noisy_x",
        "x_noisy", "x_t", "xt", "x_masked",
    }
)  # fmt: skip
_CODES: Final = frozenset({"q", "quantized", "quantised", "z_q", "zq", "quant", "z_quantized", "z_quantised"})
_QUANTIZING: Final = frozenset({"vq", "quantize", "quantise", "quantizer", "quantiser", "codebook", "quant"})
_LOSSES: Final = frozenset({"loss", "losses", "elbo", "nll", "objective", "likelihood", "loglik", "penalty"})
#: Parameters of a loss that are there for a report, or for other losses of the same form.
_ASIDE: Final = frozenset(
    {"epoch", "step", "iteration", "args", "cfg", "config", "device", "model", "it", "logger", "name", "reduction",
     "global_step", "writer", "opt", "options", "hparams", "params", "context", "ctx", "state"}
)  # fmt: skip


def is_product(name: str, binding: Binding, function: Function) -> bool:
    """Return whether the training needs a value that nothing reads: parameters, a fitted scaler, inputs, next states.

    Args:
        name: Of the value, in this function.
    """
    if name.startswith("_") or binding.is_loop:
        return False
    if not binding.is_part:
        return _is_list_of_parameters(binding.value) or _is_fitted(binding.value)
    made_by, words = called(binding.value), words_of(name)
    if name in _CODES:
        return not words_of(made_by).isdisjoint(_QUANTIZING)
    if not goes_backward(function):
        return False
    if name in _INPUTS:
        return bool(made_by) and made_by not in ("next", "to")
    is_next = name in _SHORT_NEXT or not (words.isdisjoint(_NEXT) or words.isdisjoint(_STATES))
    beside = set[str]().union(*map(words_of, binding.beside))
    return is_next and made_by != "step" and not beside.isdisjoint(REWARDS) and _discounts(function)


def is_needed_by_loss(name: str, function: Function) -> bool:
    """Return whether a parameter is one that the function, a loss by its name, should read."""
    is_aside = name.startswith("_") or not words_of(name).isdisjoint(_ASIDE)
    # of methods, losses of one form get what only some of them need
    return not (is_method(function) or is_aside or words_of(function.name).isdisjoint(_LOSSES))


def is_method(function: Function) -> bool:
    """Return whether a function is a method, as its first parameter is named."""
    first = next(iter([*function.args.posonlyargs, *function.args.args]), None)
    return first is not None and first.arg in ("self", "cls")


def _is_list_of_parameters(value: ast.expr | None) -> bool:
    """Return whether a value is a list of a model's parameters, all or some, as an optimizer is given it."""
    if isinstance(value, ast.ListComp):
        made_of = value.generators[0].iter
        return called(made_of) in ("parameters", "named_parameters") and isinstance(value.elt, ast.Name)
    if not isinstance(value, ast.Call) or called(value) not in ("list", "filter"):
        return False
    return any(called(one) == "parameters" for one in ast.walk(value) if isinstance(one, ast.Call))


def _is_fitted(value: ast.expr | None) -> bool:
    """Return whether a value is made and fitted at once, `Scaler().fit(x)`."""
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "fit"):
        return False
    return _PREPARING.search(called(value.func.value)) is not None


def _discounts(function: Function) -> bool:
    names = [one.id for one in walked(function) if isinstance(one, ast.Name)]
    names += [one.attr for one in walked(function) if isinstance(one, ast.Attribute)]
    return any(not _DISCOUNTED.isdisjoint(words_of(name)) for name in names)
