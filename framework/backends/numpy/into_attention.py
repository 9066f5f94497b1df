"""Attention into given memory, laid out as heads split from a projection are: positions before heads."""

from collections.abc import Mapping
from typing import Any

from ...ops.attention import attend, attend_back
from ...shape import Shape, Spec
from .into import Into, into

__all__: list[str] = []


def _order(spec: Spec) -> Shape | None:
    """`(batch, positions, heads, features)` in memory, for `(batch, heads, positions, features)`."""
    return (0, 2, 1, 3) if len(spec.shape) == 4 else None


def _fits(*specs: Spec) -> bool:
    return len({x.dtype for x in specs}) == 1 and specs[0].dtype.name in ("float32", "float64")


@into("attention")
def _attention(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs[:3]) or set(attributes) != {"causal", "scale"}:
        return None
    how = dict(attributes)

    def run(q: Any, k: Any, v: Any, *rest: Any) -> None:
        *mask, out, sums = rest
        attend(q, k, v, *mask, out=out, sums=sums, **how)

    shapes = (None,) * len(inputs)
    return Into(run, shapes, (None, None), is_strided=True, is_dense=True, orders=(_order(outputs[0]), None))


@into("attention_gradient")
def _attention_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs[:6]) or set(attributes) != {"causal", "scale"}:
        return None
    how = dict(attributes)

    def run(*arrays: Any) -> None:
        attend_back(*arrays[:-3], found=arrays[-3:], **how)

    shapes, orders = (None,) * len(inputs), tuple(_order(y) for y in outputs)
    return Into(run, shapes, (None, None, None), is_strided=True, is_dense=True, orders=orders)
