"""The operations in the spelling of PyTorch and of MindSpore's mint: other names and keywords, the same functions.

Nothing is written twice. A name of `ops` is a name here; `_NAMES` has those that are spelled differently, `_KEYWORDS`
the arguments, and the few whose behaviour differs (the variance of a sample, an extreme with its index, classes along
axis 1) stand below as functions. `mint.nn.functional` is the same table under PyTorch's name for it.

Example:
    >>> from mindscope.framework import Tensor, mint
    >>> mint.cumsum(Tensor([1.0, 2.0]), dim=0)
    Tensor([1., 3.], dtype=float32)
"""

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache, wraps
from inspect import signature
from typing import Any, TypeVar

from . import ops
from .primitive import Results
from .specs import Axes
from .tensor import Tensor

#: Names that `ops` spells differently; after the name the order of the arguments, where that differs too.
_NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "binary_cross_entropy": "bce", "cat": "concat", "clamp": "clip",
    "binary_cross_entropy_with_logits": "bce_with_logits", "concatenate": "concat", "div": "divide",
    "eq": "equal", "expit": "sigmoid", "fix": "trunc",
    "gather": "gather_elements x axis indices", "ge": "greater_equal", "gt": "greater", "le": "less_equal",
    "lt": "less", "movedim": "moveaxis", "mse_loss": "mse", "mul": "multiply", "ne": "not_equal", "neg": "negative",
    "polygamma": "polygamma order x", "pow": "power", "repeat_interleave": "repeat",
    "scatter": "scatter_elements x axis indices updates", "sub": "subtract", "swapdims": "swapaxes",
    "take_along_dim": "take_along_axis", "transpose": "swapaxes x first second", "true_divide": "divide",
    "unbind": "unstack", "unsqueeze": "expand_dims",
}  # fmt: skip

#: Keywords and what `ops` may call them: the first that the function has.
_KEYWORDS = {
    "correction": ("ddof",), "descending": ("descending",), "diagonal": ("offset",), "dim": ("axis",),
    "dim0": ("first",), "dim1": ("second",), "dims": ("axis", "axes"), "eps": ("epsilon",), "exponent": ("b",),
    "index": ("indices",), "input": ("x", "a", "z", "prediction", "logits"), "k": ("count",), "keepdim": ("keepdims",),
    "max": ("high",), "mean": ("mean",), "min": ("low",), "mask": ("mask",), "n": ("exponent", "order", "length"),
    "num_classes": ("depth",), "num_groups": ("groups",), "ord": ("order",), "other": ("b",), "p": ("order", "rate"),
    "padding_idx": ("padding_index",),
    "shifts": ("shift",), "sizes": ("lengths", "shape"), "source": ("updates",), "src": ("updates",),
    "tensors": ("parts",), "threshold": ("bound",), "upscale_factor": ("factor",),
}  # fmt: skip

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OWN: dict[str, Callable[..., Any]] = {}


def _own(function: _Function) -> _Function:
    """Return the function, which stands in the table instead of the one of `ops`."""
    _OWN[function.__name__.lstrip("_")] = function
    return function


def _extreme(x: Tensor, second: Tensor | int | None, keepdims: bool, *, largest: bool) -> Results:
    """Return one number; with an axis values and indices; with a second tensor the larger (smaller) of both."""
    if isinstance(second, Tensor):
        return ops.maximum(x, second) if largest else ops.minimum(x, second)
    if second is None:
        return ops.max(x) if largest else ops.min(x)
    places = ops.expand_dims(ops.argmax(x, second) if largest else ops.argmin(x, second), second % x.ndim)
    values = ops.gather_elements(x, places, second)
    return (values, places) if keepdims else (ops.squeeze(values, second), ops.squeeze(places, second))


@_own
def _max(x: Tensor, dim: Tensor | int | None = None, keepdim: bool = False, *, other: Tensor | None = None) -> Results:
    """Return the largest element; with `dim` also its index; with `other` the larger of two."""
    return _extreme(x, dim if other is None else other, keepdim, largest=True)


@_own
def _min(x: Tensor, dim: Tensor | int | None = None, keepdim: bool = False, *, other: Tensor | None = None) -> Results:
    """Return the smallest element; with `dim` also its index; with `other` the smaller of two."""
    return _extreme(x, dim if other is None else other, keepdim, largest=False)


@_own
def _var(x: Tensor, dim: Axes = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
    """Return the variance of a sample: divided by the number of elements less `correction`."""
    return ops.var_mean(x, dim, keepdim, correction)[0]


@_own
def _std(x: Tensor, dim: Axes = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
    """Return the standard deviation of a sample."""
    return ops.std(x, dim, keepdim, correction)


@_own
def _argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index of the largest element."""
    found = ops.argmax(x, dim)
    return ops.expand_dims(found, dim % x.ndim) if keepdim and dim is not None else found


@_own
def _argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index of the smallest element."""
    found = ops.argmin(x, dim)
    return ops.expand_dims(found, dim % x.ndim) if keepdim and dim is not None else found


@_own
def _unique(x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Results:
    """Return the distinct elements; with the inverse and the counts where they are asked for."""
    found = ops.unique(x, sorted=sorted)
    asked = (return_inverse, return_counts)
    rest = [part for part, wanted in zip((found.inverse.reshape(x.shape), found.counts), asked, strict=True) if wanted]
    return (found.values, *rest) if rest else found.values


@_own
def _scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return the tensor with the values of `src` added at the indices."""
    return ops.scatter_elements(x, index, src, dim, "add")


@_own
def _cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, **options: Any) -> Tensor:
    """Return `ops.cross_entropy` with the classes along axis 1."""
    return ops.cross_entropy(input, target, weight=weight, axis=1 if input.ndim > 1 else 0, **options)


@_own
def _nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, **options: Any) -> Tensor:
    """Return `ops.nll` with the classes along axis 1."""
    return ops.nll(input, target, weight=weight, axis=1 if input.ndim > 1 else 0, **options)


def _spelled(function: Callable[..., Any], order: tuple[str, ...]) -> Callable[..., Any]:
    """Return the function with its arguments under the names, and in the order, of PyTorch."""
    known = signature(function).parameters

    def renamed(keyword: str) -> str:
        return next((name for name in (keyword, *_KEYWORDS.get(keyword, ())) if name in known), keyword)

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        named = {renamed(keyword): value for keyword, value in keywords.items()}
        if order:
            return function(**dict(zip(order, arguments, strict=False)), **named)
        if len(arguments) > 1 and all(isinstance(part, int) for part in arguments[1:]) and "shape" in known:
            arguments = (arguments[0], arguments[1:])  # x.reshape(2, 3)
        return function(*arguments, **named)

    return call


@cache
def _find(name: str) -> Callable[..., Any]:
    if name in _OWN:
        return _OWN[name]
    target, *order = _NAMES.get(name, name).split()
    if target not in ops.__all__:
        near = get_close_matches(name, _names(), 1)
        raise AttributeError(f"no operation {name!r} in mint" + (f"; did you mean {near[0]!r}?" if near else ""))
    return _spelled(getattr(ops, target), tuple(order))


def _names() -> list[str]:
    return sorted({*ops.__all__, *_NAMES, *_OWN})


class _Namespace:
    """The table under another name: `mint.nn.functional`, `mint.linalg`, `mint.special`."""

    def __init__(self, **parts: object) -> None:
        self.__dict__.update(parts)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _find(name)

    def __dir__(self) -> list[str]:
        return _names()


linalg = special = _Namespace()
nn = _Namespace(functional=_Namespace())


def __getattr__(name: str) -> Callable[..., Any]:
    """Return the operation of that name."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _find(name)


def __dir__() -> list[str]:
    """Return the names of all operations."""
    return _names()
