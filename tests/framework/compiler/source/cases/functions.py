"""Functions as values: closures, defaults, stars, decorators, `with` and `try`."""

import functools

from mindscope.framework import no_grad, ops, stop_gradient

from tests.framework.compiler.source.cases.table import case, s


def halves(x, *rest, factor=0.5, **more):
    total = x * factor
    for part in rest:
        total = total + part
    for key in more:
        total = total * more[key]
    return total


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
def partial_functions(x):
    return functools.partial(halves, factor=3.0)(x), list(map(lambda y: y if y > 0 else -y, [x[0], x[1]]))


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


@case((s(1.0), s(2.0)), (s(3.0), s(-2.0)))
def two_arguments(a, b):
    return (a if a > b else b) - (a if a < b else b)


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
