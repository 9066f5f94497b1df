"""`match` over known and traced values."""

from dataclasses import dataclass

from tests.framework.compiler.source.cases.table import case


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
