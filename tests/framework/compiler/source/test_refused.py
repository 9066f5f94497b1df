"""What cannot become a graph: one clear error each, with file, line, construct and remedy."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from mindscope.framework import Parameter, Tensor, ops, vjp
from mindscope.framework.compiler import CaptureError

from tests.framework.compiler.source.cases import t
from tests.framework.compiler.source.programs import function_of
from tests.framework.compiler.source.running import Compiled, run

LOG = []
HOLDER = SimpleNamespace(tensor=None, weight=Parameter(np.ones(3)), name="a")


def list_that_grows(x):
    found = []
    for row in x:
        found.append(row)  # noqa: PERF402
    return ops.stack(found)


def list_of_other_length(x):
    found = [x]
    if x.sum() > 0:
        found.append(x)
    return found


def other_shape(x):
    y = x if x.ndim else None
    if x.sum() > 0:
        y = x.sum()
    return y * 2


def missing_on_a_path(x):
    if x.sum() > 0:
        y = x
    return y


def only_in_the_loop(x):
    for row in x:
        y = row
    return y


def shape_changes_in_the_loop(x):
    y = x[:1]
    while y.sum() < 10:
        y = ops.concat([y, x])
    return y


def generator(x):
    def rows():
        yield x

    return list(rows())


def global_statement(x):
    global LOG
    LOG = x
    return x


def import_inside(x):
    import json

    return x if json else -x


def class_inside(x):
    class Inner:
        pass

    return x if Inner else -x


def element_assigned(x):
    x[0] = 1.0
    return x


def element_of_a_view(x):
    y = x * 2
    row = y[1:]
    y[1] = 0.0
    return row


def element_after_a_join(x):
    y, z = x * 2, x * 3
    if x.sum() > 0:
        z = y
    y[0] = 1.0
    return y, z


def element_of_a_joined(x):
    y = x * 2
    if x.sum() > 0:
        y = x * 3
    y[0] = 1.0
    return y


def numpy_function(x):
    return np.sin(x)


def traced_slice(x):
    return x[: int(x[0])]


def traced_index_of_a_list(x):
    return [1, 2, 3][int(x[0])]


def list_outside(x):
    LOG.append(x)
    return x


def tensor_kept(x):
    HOLDER.tensor = x * 2
    return x


def word_kept(x):
    HOLDER.name = "b"
    return x


def parameter_replaced(x):
    HOLDER.weight = x
    return x


def match_that_binds_in_alternatives(x):
    match (float(x.sum()), x):
        case (1.0, y) | (2.0, y):
            return y
    return -x


def vector_as_condition(x):
    return x if x > 0 else -x


def condition_in_a_comprehension(x):
    return [row for row in x if row > 0]


def recursion_without_end(x):
    return recursion_without_end(x + 1) if x.sum() > 0 else recursion_without_end(x - 1)


def function_returned(x):
    return lambda: x


def text_returned(x):
    return f"{x}"


def raise_inside_try(x):
    try:
        if x.sum() > 0:
            raise ValueError  # noqa: TRY301 (that is what is refused)
    except ValueError:
        return x
    return x


def numbers_of_a_vector(x):
    return float(x)


def file_of_print(x):
    print(x, file=None)  # noqa: T201
    return x


def pull_back_through_a_branch(x):
    return vjp(lambda y: y.sum() if y.sum() > 0 else y.mean(), x)[1](Tensor(1.0))


def backward_through_a_branch(x):
    loss = (HOLDER.weight * x).sum()
    if loss > 0:
        loss = loss * 2
    loss.backward()
    return loss


REFUSED = [
    (list_that_grows, "a list changes its length in the loop over traced values at .*test_refused.py:.*unrolled"),
    (list_of_other_length, "a list changed under a condition on traced values, and is a list of 2 on one path"),
    (other_shape, r"variable 'y', read at .*test_refused.py:\d+, is a tensor .* on one path and a tensor"),
    (missing_on_a_path, r"variable 'y', read at .*py:\d+, is not assigned on every path"),
    (shape_changes_in_the_loop, r"variable 'y', read at .*, is a tensor \(1,\) float64 on one path and"),
    (generator, r"generator 'generator.<locals>.rows' cannot become part of a graph .*return a list"),
    (global_statement, "a global statement cannot become part of a graph .*keep it in a Parameter"),
    (import_inside, "an import cannot become part of a graph .*at the top of the file"),
    (class_inside, "a class definition cannot become part of a graph"),
    (element_assigned, "an assignment to elements of a tensor that the function has not made itself.*ops.where"),
    (element_of_a_view, "an assignment to elements of a tensor while another one shares its memory cannot"),
    (element_after_a_join, "elements of a tensor that another variable may stand for since a branch or loop cannot"),
    (element_of_a_joined, "elements of a tensor that the function has not made itself, or that came out of a branch"),
    (numpy_function, r"'sin', called at .*py:\d+, needs the values of a tensor.*mindscope.framework.ops"),
    (traced_slice, "a slice whose bounds are only known when the graph runs cannot"),
    (traced_index_of_a_list, "an index of a list that is only known when the graph runs .*ops.stack"),
    (list_outside, "the list 'LOG' stands outside of the compiled function"),
    (tensor_kept, "'HOLDER.tensor' would keep a tensor from inside a compiled function"),
    (word_kept, "'HOLDER.name' would change only once"),
    (parameter_replaced, "'HOLDER.weight' is a Parameter and cannot be replaced in a graph; use set_data"),
    (match_that_binds_in_alternatives, "a pattern with '|' that binds names and depends on .*one case for each"),
    (vector_as_condition, r"the truth of a tensor of shape \(3,\) is not defined.*ops.where.*test_refused.py:\d+"),
    (condition_in_a_comprehension, "inside a comprehension cannot .*ops.where"),
    (recursion_without_end, "calls itself on every path.*give it a path that ends"),
    (function_returned, "'function_returned' returns a function that it defines"),
    (text_returned, "'text_returned' returns text with traced values in it"),
    (raise_inside_try, "ValueError is raised under a condition on traced values inside a try"),
    (numbers_of_a_vector, r"a number can be made of a tensor of one element, got shape \(3,\)"),
    (file_of_print, "print inside a compiled function takes sep, end and flush, got file"),
    (pull_back_through_a_branch, "vjp of a function with control flow over tensors.*only grad and value_and_grad"),
    (backward_through_a_branch, "which the tape cannot go back through; use grad or value_and_grad"),
]


@pytest.mark.parametrize(("fn", "words"), REFUSED, ids=[fn.__name__ for fn, _ in REFUSED])
def test_what_cannot_become_a_graph_is_refused_with_line_and_remedy(fn, words):
    with pytest.raises(CaptureError, match=f"(?s){words}"):
        Compiled(fn, t(1.0, 2.0, 3.0))


def test_a_variable_that_only_a_loop_gives_is_not_there_after_it():
    with pytest.raises((CaptureError, UnboundLocalError), match="'y'"):
        Compiled(only_in_the_loop, t(1.0))


def test_code_without_source_says_so():
    space = {}
    exec("def fn(x): return x", space)
    with pytest.raises(CaptureError, match=r"the source of 'fn' is not available .*define it in a file"):
        Compiled(space["fn"], t(1.0))


def test_lambdas_on_one_line_are_told_apart():
    first, second = (lambda x: x + 1), (lambda x: x * 3)
    assert run(first, t(1.0)).numpy() == [2.0]
    assert run(second, t(1.0)).numpy() == [3.0]


def test_an_error_under_a_condition_is_raised_when_it_holds():
    def checked(x):
        if x.sum() < 0:
            raise ValueError("must not be negative")
        assert x[0] < 5, f"first is {float(x[0]):.1f}"
        return x

    compiled = Compiled(checked, t(1.0, 2.0))
    assert compiled(t(1.0, 2.0)).numpy().tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="must not be negative"):
        compiled(t(-1.0, -2.0))
    with pytest.raises(AssertionError, match=r"first is 7.0 \(.*test_refused.py:\d+\)"):
        compiled(t(7.0, 2.0))


def test_print_speaks_at_every_run_and_only_on_the_path_taken(capsys):
    def speaking(x):
        print("start", len(x))  # noqa: T201
        for i, row in enumerate(x):
            if row > 0:
                print("row", i, f"{float(row):.2f}", sep="|")  # noqa: T201
        return x

    compiled = Compiled(speaking, t(1.0, -2.0))
    assert capsys.readouterr().out == ""
    compiled(t(1.0, -2.0))
    compiled(t(-1.0, 0.5))
    assert capsys.readouterr().out == "start 2\nrow|0|1.00\nstart 2\nrow|1|0.50\n"


def test_an_unknown_statement_names_file_line_and_text():
    fn = function_of("def program(x):\n    y = x\n    async def later():\n        pass\n    return y\n")
    with pytest.raises(CaptureError, match=r"an asynchronous function cannot .*\(<program \d+>:3, in 'program'\)"):
        Compiled(fn, t(math.pi))
