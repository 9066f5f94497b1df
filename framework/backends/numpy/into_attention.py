"""Attention into given memory, laid out as heads split from a projection are: positions before heads."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...ops.attention import Call, attend, attend_back
from ...shape import Shape, Spec
from .into import Into, into

__all__: list[str] = []


def _order(spec: Spec) -> Shape | None:
    """`(batch, positions, heads, features)` in memory, for `(batch, heads, positions, features)`."""
    return (0, 2, 1, 3) if len(spec.shape) == 4 else None


def _fits(*specs: Spec) -> bool:
    return len({x.dtype for x in specs}) == 1 and specs[0].dtype.name in ("float32", "float64")


def _all(calls: Iterable[Call]) -> Callable[[], None]:
    """One call for many, their arguments kept: slicing heads takes longer than some of the products."""
    kept = list(calls)

    def run() -> None:
        for function, arguments in kept:
            function(*arguments)

    return run


def _now(prepare: Callable[..., Callable[[], None]]) -> Callable[..., None]:
    return lambda *arrays: prepare(*arrays)()


@into("attention")
def _attention(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs[:3]) or set(attributes) != {"causal", "scale"}:
        return None
    how = dict(attributes)

    def prepare(q: Any, k: Any, v: Any, *rest: Any) -> Callable[[], None]:
        *mask, out, sums = rest
        return _all(attend(q, k, v, *mask, out=out, sums=sums, **how))

    shapes = (None,) * len(inputs)
    return Into(
        _now(prepare),
        shapes,
        (None, None),
        is_strided=True,
        is_dense=True,
        prepare=prepare,
        orders=(_order(outputs[0]), None),
    )


@into("attention_gradient")
def _attention_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs[:6]) or set(attributes) != {"causal", "scale"}:
        return None
    how = dict(attributes)

    def prepare(*arrays: Any) -> Callable[[], None]:
        return _all(attend_back(*arrays[:-3], found=arrays[-3:], **how))

    shapes, orders = (None,) * len(inputs), tuple(_order(y) for y in outputs)
    return Into(
        _now(prepare), shapes, (None, None, None), is_strided=True, is_dense=True, prepare=prepare, orders=orders
    )
