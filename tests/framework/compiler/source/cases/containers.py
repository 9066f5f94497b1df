"""Lists, dicts, tuples and objects of the user."""

import functools
from typing import NamedTuple

from tests.framework.compiler.source.cases.table import case


class Pair(NamedTuple):
    first: object
    second: object


class Scale:
    """A plain object of the user."""

    factor = 2.0

    def __init__(self, offset):
        self.offset = offset
        self._twice = 2

    def __call__(self, x):
        if x.sum() > self.offset:
            return x * self.factor
        return x + self.doubled

    @property
    def doubled(self):
        return self.offset * self._twice

    @staticmethod
    def negative(x):
        return -x

    @classmethod
    def make(cls, x):
        return cls(1.5)(x)


class Shifted(Scale):
    def __call__(self, x):
        return super().__call__(x) + 1


scale = Scale(0.5)
shifted = Shifted(0.25)
WEIGHTS = {"a": 2.0, "b": [1.0, 3.0]}


@case()
def comprehensions(x):
    rows = [row * i for i, row in enumerate(x)]
    table = {f"r{i}": row for i, row in enumerate(rows) if i != 1}
    return rows, table, sum(rows), [a + b for a in rows for b in rows[:2]]


@case()
def list_methods(x):
    items = []
    for i in range(3):
        items.append(x * i)  # noqa: PERF401 (append is what is tried)
    items.extend([x, x + 1])
    last = items.pop()
    items.insert(0, last)
    del items[1]
    items[0] = items[0] * 2
    items += [x]
    return items, len(items)


@case()
def dict_methods(x):
    table = {"a": x}
    table.update(b=x + 1)
    table["c"] = table.get("z", x * 3)
    table.setdefault("d", x * 4)
    gone = table.pop("a")
    return {**table, "e": gone}, "b" in table, list(table.keys())


@case()
def list_changed_in_both_branches(x):
    items = [x]
    if x.sum() > 0:
        items.append(x * 2)
    else:
        items.append(x * 3)
    return items


@case()
def named_tuples(x):
    pair = Pair(x, second=x * 2)
    if x.sum() > 0:
        pair = pair._replace(first=x + 1)
    return pair.first, pair[1], tuple(pair)


@case()
def objects_of_the_user(x):
    return scale(x), shifted(x), Scale.negative(x), Scale.make(x), scale.doubled


@case()
def object_made_inside(x):
    made = Scale(3.0)
    if x.sum() > 0:
        made.offset = x.sum()
    else:
        made.offset = x.mean()
    return made.offset * 2


@case()
def globals_of_containers(x):
    return x * WEIGHTS["a"] + WEIGHTS["b"][1] + sum(WEIGHTS["b"])


@case()
def reduce_and_sorted(x):
    total = functools.reduce(lambda a, b: a + b if a.sum() > 0 else a - b, [x, x * 2, x * 3])
    return total, sorted([3, 1, 2], key=lambda n: -n)


@case()
def delete_and_annotate(x):
    y: object = x * 2
    z: int
    del y
    z = x
    return z * 2
