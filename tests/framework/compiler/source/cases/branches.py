"""Conditions on traced values: branches, early returns, what is joined behind them."""

from tests.framework.compiler.source.cases.table import SCALARS, case


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


@case(*SCALARS)
def and_or_not(x):
    return (x > 0 and x < 5), (x < 0 or x > 5), not x > 1, (x and 3.5), (x or 2.5)


@case(*SCALARS)
def chains(x):
    return (0 < x < 5), (0 <= x <= 0 <= 1), 1 < 2 < 3


@case()
def walrus_and_ternaries(x):
    if (total := x.sum()) > 1:
        return total * 2
    return total if total > 0 else (total - 1 if total > -5 else total + 1)


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
def swap_in_branch(x):
    a, b = x[0], x[1]
    if a > b:
        a, b = b, a
    return a, b
