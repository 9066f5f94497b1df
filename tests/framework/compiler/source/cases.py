"""Small functions, one for each thing that Python's syntax can do, each with arguments to try them on."""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from mindscope.framework import Tensor, no_grad, ops, stop_gradient

CASES = {}


def t(*numbers):
    return Tensor(np.array(numbers, np.float64))


def s(number):
    return Tensor(np.float64(number))


POINTS = [(t(1.0, 2.0, 3.0),), (t(-1.0, -2.0, 0.5),), (t(10.0, -20.0, 5.0),), (t(0.0, 0.0, 0.0),)]
SCALARS = [(s(1.0),), (s(-2.0),), (s(7.5),), (s(0.0),)]


def case(*arguments):
    def register(fn):
        assert fn.__name__ not in CASES
        CASES[fn.__name__] = fn, arguments or POINTS
        return fn

    return register


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


def halves(x, *rest, factor=0.5, **more):
    total = x * factor
    for part in rest:
        total = total + part
    for key in more:
        total = total * more[key]
    return total


@case()
def conditional_expression(x):
    return x * 2 if x.sum() > 0 else x - 1


@case()
def elif_chain(x):
    if x.sum() > 10:
        y = x
    elif x.sum() > 0:
        y = x * 2
    elif x[0] < 0 and x[1] < -1:
        y = x * 3
    else:
        y = x * 4
    return y + 1


@case()
def variable_of_one_branch_unused_after(x):
    if x.sum() > 0:
        only_here = x * 2
        y = only_here.sum()
    else:
        y = x.mean()
    return y


@case()
def early_returns(x):
    if x[0] > 5:
        return x
    if x[1] > 1:
        return x + 1
    return x + 2


@case()
def number_joined_with_tensor(x):
    y = 0.0
    if x.sum() > 0:
        y = x.sum()
    return y


@case()
def number_of_branches(x):
    n = 1
    if x.sum() > 0:
        n = 2
    return x * n, n


@case()
def none_or_static_flag(x):
    flag = None
    if x.sum() > 0:
        flag = None
        x = x + 1
    return x if flag is None else x * 100


@case()
def while_with_else(x):
    i = 0
    while i < x.sum():
        x = x * 0.5
        i += 1
        if i > 4:
            break
    else:
        i = i + 10
    return x, i


@case()
def nested_while(x):
    total, i = 0.0, 0
    while i < 3 and total < 100:
        j = 0
        while j < i:
            total = total + x.sum() * j
            j += 1
        i += 1
    return total, i


@case()
def while_true_with_return(x):
    n = 0
    while True:
        n += 1
        x = x * 2 + 1
        if abs(x.sum()) > 50 or n > 6:
            return x, n


@case()
def for_over_rows(x):
    best = x[0]
    for row in x:
        if row > best:
            best = row
    return best


@case()
def for_with_continue(x):
    total = 0.0
    for row in x:
        if row < 0:
            continue
        total = total + row
    return total


@case()
def for_enumerate(x):
    place = -1
    for i, row in enumerate(x, 1):
        if row > 1:
            place = i
    return place


@case()
def for_zip(x):
    total = 0.0
    for a, b in zip(x, x * 2, strict=True):
        total = total + a * b
    return total


@case()
def for_reversed(x):
    last = x[0]
    for row in reversed(x):
        last = last * 0.5 + row
    return last


@case()
def for_range_traced(x):
    total = 0
    for i in range(int(abs(x).sum())):
        total += i
    return total


@case()
def for_range_step(x):
    places = 0
    for i in range(int(abs(x[0])) + 4, 0, -2):
        places = places * 10 + i
    return places


@case()
def static_loop_with_traced_break(x):
    for i in range(5):
        if x.sum() > 20:
            break
        x = x * 2 + i
    else:
        return x - 1000
    return x


@case()
def static_loop_with_traced_return(x):
    for factor in (1.0, 2.0, 3.0):
        if x.sum() * factor > 5:
            return x * factor
    return x


@case()
def loop_over_dict(x):
    total = x
    for key, value in {"a": 1.0, "b": 2.0}.items():
        total = total + value if key == "a" else total * value
    return total


@case()
def loop_changes_a_tuple(x):
    state = (x, 0)
    while state[1] < 3 and state[0].sum() < 50:
        state = (state[0] * 2, state[1] + 1)
    return state


@case()
def loop_changes_a_dict(x):
    state = {"x": x, "n": 0}
    while state["n"] < 3 and state["x"].sum() < 50:
        state["x"] = state["x"] * 2
        state["n"] += 1
    return state


@case()
def loop_changes_items_of_a_list(x):
    pair = [x, x.sum()]
    for row in x:
        pair[0] = pair[0] + row
        pair[1] = pair[0].sum()
    return pair


@case()
def fibonacci_of_tensors(x):
    a, b = x, x + 1
    n = 0
    while b.sum() < 30 and n < 8:
        a, b = b, a + b
        n += 1
    return a, b, n


@case((s(5.0),), (s(1.0),), (s(0.0),), (s(9.0),))
def factorial(n):
    return s(1.0) * 1 if n <= 1 else n * factorial(n - 1)


@case((s(5.0),), (s(1.0),), (s(12.0),))
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@case((s(5.0),), (s(4.0),), (s(0.0),))
def mutual_recursion(n):
    def even(n):
        return n * 0 + 1 if n < 1 else odd(n - 1)

    def odd(n):
        return n * 0 if n < 1 else even(n - 1)

    return even(n)


@case((s(5.0),), (s(40.0),), (s(300.0),))
def recursion_with_counter(x, depth=0):
    if x < 10:
        return x, depth
    return recursion_with_counter(x / 2, depth + 1)


@case()
def static_recursion(x, depth=4):
    return x if depth == 0 else static_recursion(x * 2, depth - 1)


@case(*SCALARS)
def and_or_not(x):
    return (x > 0 and x < 5), (x < 0 or x > 5), not x > 1, (x and 3.5), (x or 2.5)


@case(*SCALARS)
def chains(x):
    return (0 < x < 5), (0 <= x <= 0 <= 1), 1 < 2 < 3


@case(*SCALARS)
def short_circuit_recursion(n):
    return n <= 0 or short_circuit_recursion(n - 1)


@case()
def closures(x):
    factor = 3.0

    def times(y, plus=1.0):
        nonlocal factor
        factor = factor + 1
        return y * factor + plus

    return times(x) + times(x, plus=2.0), factor


@case()
def nonlocal_in_a_branch(x):
    count = 0

    def positive(y):
        nonlocal count
        if y > 0:
            count += 1
        return y

    total = 0.0
    for row in x:
        total = total + positive(row)
    return total, count


@case()
def lambdas(x):
    first, second = (lambda y: y + 1), (lambda y: y * 2 if y.sum() > 0 else y)
    return first(second(x)), (lambda: x)()


@case()
def higher_order(x):
    def twice(f):
        return lambda y: f(f(y))

    return twice(lambda y: y * 2 if y.sum() > 3 else y + 1)(x)


@case()
def defaults_and_stars(x):
    rest = [x, x * 2]
    return halves(x), halves(x, *rest, factor=2.0), halves(x, p=2.0, q=3.0)


@case()
def star_assignment(x):
    first, *middle, last = (x, x + 1, x + 2, x + 3)
    (a, b), c = (first, last), middle
    return a, b, c, len(middle)


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
def partial_functions(x):
    return functools.partial(halves, factor=3.0)(x), list(map(lambda y: y if y > 0 else -y, [x[0], x[1]]))


@case()
def reduce_and_sorted(x):
    total = functools.reduce(lambda a, b: a + b if a.sum() > 0 else a - b, [x, x * 2, x * 3])
    return total, sorted([3, 1, 2], key=lambda n: -n)


@case(*SCALARS)
def numbers_of_tensors(x):
    n = int(x)
    f = x.item()
    return n, float(x) * 0.1, bool(x), n // 2, n % 3, n**2, f / 3, -n, abs(n), n * f, n == 1, round(f), divmod(n, 4)


@case(*SCALARS)
def mathematics(x):
    f = float(x)
    return math.exp(f * 0.1), math.sqrt(abs(f)), math.floor(f), math.ceil(f), math.pi * f, max(f, 1.0), min(f, 2, 3)


@case()
def numbers_beside_tensors_keep_the_dtype(x):
    y = ops.cast(x, "float32")
    scale = float(x.sum()) * 0.1
    for i in range(int(abs(x[0])) + 1):
        y = y * scale + i
    return y, 1 - y, y > i if False else y / 2


@case()
def any_all_in(x):
    flags = [x[0] > 0, x[1] > 0]
    return any(flags), all(flags), x.sum() in [6.0, 7.0], 3 in (1, 2, 3), 4 not in [1]


@case()
def traced_index(x):
    i = ops.argmax(x)
    n = int(i)
    return x[i], x[n], x[n - 1] if n > 0 else x[n]


@case()
def shapes_are_known(x):
    rows, width = x.reshape(1, -1).shape
    assert rows == 1
    return x.reshape(width, rows) * len(x) if x.ndim == 1 else x


@case()
def try_and_except(x):
    try:
        y = {"a": x}["b"]
    except KeyError as error:
        y = x + len(error.args)
    else:
        y = x * 100
    finally:
        x = x + 1
    return y + x


@case()
def with_blocks(x):
    with no_grad():
        y = x * 2
        if x.sum() > 0:
            return y
    return y + x


@no_grad()
def decorated(x):
    if x.sum() > 0:
        return x
    return -x


@case()
def decorated_function(x):
    return decorated(x) + stop_gradient(x)


@case()
def walrus_and_ternaries(x):
    if (total := x.sum()) > 1:
        return total * 2
    return total if total > 0 else (total - 1 if total > -5 else total + 1)


@case()
def text_of_known_values(x):
    name = f"{len(x)}-{x.ndim:03d}-{'a'!r}"
    return {name: x}, "%d" % 3  # noqa: UP031 (the sign is what is tried)


@case()
def slices(x):
    return x[1:], x[::-1], x[None, :2], x[..., 0], x[[0, 2]]


@case()
def isinstance_of_values(x):
    n = int(x[0])
    return isinstance(x, Tensor), isinstance(n, int), isinstance(n, Tensor), isinstance(1.0, float), type(n) is int


@case()
def deep_returns(x):
    for i in range(3):
        for row in x:
            if row > i:
                while row > 0:
                    row = row - 1
                    if row < 0.5:
                        return row, i
        x = x + 1
    return x[0], -1


@case()
def break_of_inner_loops(x):
    count = 0
    for row in x:
        for other in x:
            if other > row:
                break
            count += 1
        else:
            count += 100
            continue
        count += 1000
    return count


@case()
def swap_in_branch(x):
    a, b = x[0], x[1]
    if a > b:
        a, b = b, a
    return a, b


@case()
def bubble_sort(x):
    items = [x[0], x[1], x[2]]
    for end in (2, 1):
        for i in range(end):
            if items[i] > items[i + 1]:
                items[i], items[i + 1] = items[i + 1], items[i]
    return items


@case((s(0.5),), (s(2.0),), (s(30.0),))
def newton_square_root(a):
    x, steps = a * 0 + 1, 0
    while abs(x * x - a) > 1e-10:
        x = (x + a / x) / 2
        steps += 1
    return x, steps


@case((s(1.0), s(2.0)), (s(3.0), s(-2.0)))
def two_arguments(a, b):
    return (a if a > b else b) - (a if a < b else b)


@case()
def delete_and_annotate(x):
    y: object = x * 2
    z: int
    del y
    z = x
    return z * 2


@case()
def bit_signs(x):
    n = int(x.sum()) + 8
    return n & 3, n | 1, n ^ 2, n << 1, n >> 1, ~n, (x[0] > 0) & (x[1] > 0)


@dataclass
class Point:
    """Matched by position and by name."""

    x: object
    y: object


def described(value):  # noqa: C901 (every kind of pattern)
    match value:
        case None:
            return 0
        case True | False:
            return 1
        case 0 | 1 | -1:
            return 2
        case int(n) if n > 100:
            return n
        case int() | float():
            return 3
        case "word" | b"bytes":
            return 4
        case []:
            return 5
        case [1, *rest]:
            return 10 + len(rest)
        case (first, [_, last]):
            return described(first) * 100 + described(last)
        case {"kind": "a", "size": size, **rest}:
            return size + len(rest)
        case {"kind": _}:
            return 6
        case Point(0, y=y):
            return y
        case Point(x=x, y=_):
            return x + 0.5
        case str() as word:
            return len(word)
        case _:
            return 7


@case()
def match_of_known_values(x):
    values = (
        *(None, True, 0, -1, 7, 700, 2.5, "word", "other", b"bytes", [], [1], [1, 2, 3], (3, (4, 500)), (1,), {2}),
        *({"kind": "a", "size": 9, "more": 1}, {"kind": 2}, {}, Point(0, 5), Point(3, 4), object),
    )
    return [x.sum() * described(value) for value in values]


@case()
def match_of_traced_numbers(x):
    match int(x.sum()), x:
        case 6, y:
            found = y
        case n, y if n < 0 or y[0] > 5:
            found = y * n
        case 0, _:
            return -x, 0
        case _:
            found = x
    match x[0] > 0:
        case True:
            sign = 1
        case _:
            sign = -1
    match x[0]:
        case 1.0 | 10.0:
            sign = sign * 3
    return found, sign


@case()
def match_in_a_loop(x):
    total = 0.0
    for row in x:
        match int(row):
            case 0:
                continue
            case 10:
                break
            case n if n > 0:
                total = total + row
            case _:
                total = total - 0.5
    return total


@case()
def starred_calls(x):
    parts = [x, x * 2]
    more = {"factor": 0.25, "extra": 2.0}
    first, *others = halves(*parts, **more), *parts, *(row * 3 for row in parts)
    return first, halves(*others, *parts[:1], factor=1.5), max(*(1, 2), 3)


@case()
def starred_calls_over_rows(x):
    return halves(*x), ops.stack([*x, *x[:2]])


@case()
def walrus_everywhere(x):
    if (total := x.sum()) > 0 and (total := total + 1) > 1:
        total = total * 2
    found = [last := row * 2 for row in x]
    while (total := total - 4) > 0:
        last = last + total
    return total, last, found, (n := 3) + n


@case()
def with_statement_and_traced_branch(x):
    with no_grad() as nothing, no_grad():
        y = x
        if x.sum() > 0:
            y = x * 2
    return y if nothing is None else x


@case()
def elements_of_a_new_tensor(x):
    out = other = ops.zeros((3,), dtype=np.float64)
    for i in range(3):
        out[i] = x[i] * 2
    out[-1] += out[0]
    return out, other, out.sum()


@case()
def elements_in_a_loop(x):
    out = x * 0
    alias = out
    for i, row in enumerate(x):
        if row > 0:
            out[i] = row
        else:
            out[i] += out[i - 1] + 1
    return out, alias


@case()
def elements_by_mask_and_slice(x):
    out = ops.stack([x, x * 2]) + 0.5
    out[:, 1:] = x[:2]
    out[out > 3] = 7
    out[0, ::2] = -1
    out[..., None, 0] *= 2
    if out.sum() > 3:
        out[1] = x.sum()
        return out
    return out - 1


@case()
def elements_by_index_tensors(x):
    places = ops.argsort(x)
    ranks = x * 0
    ranks[places] = ops.arange(3)
    whole = ops.zeros((3,), dtype=np.int64)
    whole[int(x[0]) % 3] = 2.9
    return ranks, whole


@case()
def elements_seen_by_whoever_holds_the_tensor(x):
    y = x * 2
    items, table = [y], {"y": y}

    def fill(z):
        z[0] = x.sum()

    before = y + 0
    fill(items[0])
    while y[0] > 1:
        table["y"][0] = y[0] / 2
    return y, before, items, table


@case()
def long_range_with_traced_break(x):
    count = 0
    for i in range(5, 1005, 5):
        x = x * 1.5 + i
        if x.sum() > 300:
            break
        if x[0] < -1e6:
            return x, -1, i
        count += 1
    else:
        count = -1
    return x, count, i


@case()
def long_range_that_indexes_a_list(x):
    factors = [0.5, 0.25] * 17
    for i in range(34):
        x = x + factors[i]
        if x.sum() > 20:
            break
    return x


@case()
def elements_of_a_tensor_that_one_branch_makes(x):
    total = 0.0
    for row in x:
        if row > 0:
            part = x * 1
            part[0] = row
            part[1] += 1 if row > 5 else 2
            total = total + part.sum()
    return total
