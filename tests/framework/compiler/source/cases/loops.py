"""Loops over traced values: `while`, `for`, `break`, `continue`, `else`."""

from tests.framework.compiler.source.cases.table import case, s


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
