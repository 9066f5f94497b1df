"""Attention into given memory, laid out as heads split from a projection are: positions before heads."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...ops.attention_blocks import Call, attend, attend_back
from ...shape import Shape, Spec
from .into import Into, into
from .threads import at_once, parts_of, thread_count

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


def _split(q: Any, part: Callable[[slice], Callable[[], None]]) -> Callable[[], None]:
    """The work, by parts of the batch where several threads may do it."""
    count = thread_count()
    if count == 1 or q.ndim < 3 or len(q) < count:
        return part(slice(None))
    tasks = [(part(some), ()) for some in parts_of(len(q), count)]
    return lambda: at_once(tasks)


def _now(prepare: Callable[..., Callable[[], None]]) -> Callable[..., None]:
    return lambda *arrays: prepare(*arrays)()


@into("attention")
def _attention(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs[:3]) or set(attributes) != {"causal", "scale"}:
        return None
    how = dict(attributes)

    def prepare(q: Any, k: Any, v: Any, *rest: Any) -> Callable[[], None]:
        *mask, out, sums = rest

        def part(some: slice) -> Callable[[], None]:
            masks = [m if m.ndim < q.ndim or len(m) == 1 else m[some] for m in mask]
            return _all(attend(q[some], k[some], v[some], *masks, out=out[some], sums=sums[some], **how))

        return _split(q, part)

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
        *given, of_q, of_k, of_v = arrays
        mask = given[6:]

        def part(some: slice) -> Callable[[], None]:
            masks = [m if m.ndim < of_q.ndim or len(m) == 1 else m[some] for m in mask]
            found = (of_q[some], of_k[some], of_v[some])
            return _all(attend_back(*(x[some] for x in given[:6]), *masks, found=found, **how))

        return _split(of_q, part)

    shapes, orders = (None,) * len(inputs), tuple(_order(y) for y in outputs)
    return Into(
        _now(prepare), shapes, (None, None, None), is_strided=True, is_dense=True, prepare=prepare, orders=orders
    )
