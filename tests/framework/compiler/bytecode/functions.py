"""Functions for capture from bytecode: each with inputs, and how many graphs it needs (1: none of it breaks)."""

from typing import NamedTuple

import numpy as np
from mindscope.framework import Key, Tensor, grad, nn, ops, value_and_grad

FACTOR = 3.0
TABLE = {"scale": 2.0, "offset": 1.0}
LAYERS = [lambda x: x * 2.0, lambda x: x + 1.0]


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Holder:
    def __init__(self):
        self.scale = 2.0
        self.calls = 0

    @property
    def half(self):
        return self.scale / 2

    def method(self, x, *, by=1.0):
        return x * self.scale * by

    @staticmethod
    def fixed(x):
        return x - 1.0


HOLDER = Holder()


def arithmetic(x, y):
    return (x + y) * x - y / (x * x + 1.0) + x**2 - (-y) + abs(x)


def arithmetic_sum(x, y):
    return (arithmetic(x, y) * FACTOR).sum()


def comparisons(x, y):
    return ops.where((x > y) & (x != 0.0), x, y), x <= y


def outside(x, y):
    return x * FACTOR + TABLE["scale"] * y + TABLE.get("offset", 0.0)


def loops(x, y):
    total = x
    for i, layer in enumerate(LAYERS):
        total = layer(total) + i
    for n in range(3):
        if n == 1:
            continue
        total += y * n
    while total.ndim < 3:
        total = ops.expand_dims(total, 0)
    return total


def containers(x, y):
    parts = [x, y]
    parts.append(x + y)
    first, *rest = parts
    more = {"b": rest[0]}
    named = {"a": first, **more}
    named["c"] = rest[-1]
    pair = Pair(named["a"], named["b"])
    return pair, [v * 2.0 for v in named.values()], {k: v for k, v in named.items() if k != "a"}, (*parts, 1)


def calls(x, y):
    def inner(a, b=2.0, *more, key=1.0, **rest):
        return a * b + sum(more) * key + len(rest)

    given = (x, 3.0)
    return inner(*given, 1.0, 2.0, key=0.5, other=1) + inner(y) + (lambda z: z - x)(y)


def methods(x, y):
    return HOLDER.method(x, by=HOLDER.half) + Holder.fixed(y) + x.sum() + x.reshape(-1)[0] + y.T.sum()


def words(x, y):
    name = f"{FACTOR:.1f}-{x.ndim}"
    return x + y if name == f"3.0-{len(x.shape)}" and name.startswith("3") else x - y


def recursion(x, y, depth=3):
    return x if depth == 0 else recursion(x * 0.5, y, depth - 1) + y


def indexing(x, y):
    return x[0], x[..., -1:], y[None], x[:, ::2], x[np.array([0, 0])]


def derivatives(x, y):
    value, slope = value_and_grad(lambda z: (z * z * y).sum())(x)
    return value, slope, grad(lambda z: ops.tanh(z).sum())(y)


def assertions(x, y):
    assert x.shape == y.shape, "must be equal"
    if x.ndim > 5:
        raise ValueError("too many axes")
    return x if x is not y else y


WHOLE = {
    f.__name__: f
    for f in (
        arithmetic, comparisons, outside, loops, containers, calls, methods, words, recursion, indexing, derivatives,
        assertions,
    )
}  # fmt: skip


def branch(x, y):
    z = x * 2.0
    z = z + y if z.sum() > 0 else z - y
    return z * 3.0


def until(x, y):
    steps = 0
    while (x * x).sum() > 1.0:
        x = x * 0.5 + y * 0.01
        steps += 1
    return x, steps


def numbers(x, y):
    scale = float((x + y).sum())
    return (x * scale, y / (1.0 + abs(scale))), int(x.shape[0])


def printing(x, y):
    z = x + y
    print("sum", z.shape, round(float(z.sum()), 6))  # noqa: T201 (what is said is compared)
    return z * 2.0


def with_numpy(x, y):
    z = np.tanh((x * y).numpy()) + 1.0
    return Tensor(z) * x


def collecting(x, y):
    seen = []
    for _ in range(4):
        x = x * 0.5 + y
        seen.append(float(x.sum()))
        if seen[-1] < 0:
            break
    return x, seen


def deep(x, y):
    def helper(z):
        if z.sum() > 0:
            return z * 2.0
        return -z

    return helper(x) + helper(y) + branch(x, y)


def shared(x, y):
    one = [x]
    same = one
    if x.sum() > 0:
        same.append(y)
    return one[-1] * len(same)


def caught(x, y):
    try:
        return x[int(y.sum()) + 100]
    except (IndexError, ValueError):
        return x + y


def counted(x, y):
    HOLDER.calls += 1
    z = x * y
    HOLDER.last = z
    return z + HOLDER.calls


def helper_with_try(x):
    try:
        return x * 2.0
    finally:
        HOLDER.calls += 1


def through_try(x, y):
    return helper_with_try(x * y) + 1.0


def made_by_generator(x, y):
    return sum(part for part in (x, y, x * y)) + next(iter([x]))


def mutated(x, y, box=None):
    box = [] if box is None else box
    box.append(x + y)
    return box[0] * 2.0


SPLIT = {
    f.__name__: f
    for f in (
        branch, until, numbers, printing, with_numpy, collecting, deep, shared, caught, counted, through_try,
        made_by_generator, mutated,
    )
}  # fmt: skip


class Gated(nn.Cell):
    """A cell whose way depends on values, and which counts its calls."""

    def __init__(self):
        super().__init__()
        self.first = nn.Dense(4, 4, key=Key(0), dtype=np.float64)
        self.second = nn.Dense(4, 4, key=Key(1), dtype=np.float64)
        self.calls = 0

    def construct(self, x):
        self.calls += 1
        h = ops.tanh(self.first(x))
        if h.sum() > 0:
            return self.second(h)
        return h * 2.0


class Around(nn.Cell):
    """A cell with a gated one inside."""

    def __init__(self):
        super().__init__()
        self.inner = Gated()
        self.layers = nn.CellList([nn.Dense(4, 4, key=Key(2), dtype=np.float64), nn.Tanh()])

    def construct(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.inner(x) + x
