"""Hooks of cells: what they see, what they may change, and that they come and go without a trace."""

import numpy as np
import pytest
from mindscope.framework import Parameter, Tensor, grad, no_grad
from mindscope.framework.nn import Cell


class Mix(Cell):
    """Two inputs, two outputs."""

    def __init__(self):
        super().__init__()
        self.w = Parameter(np.array([2.0, 3.0]))

    def construct(self, a, b):
        return a * self.w, a * b


class Double(Cell):
    def construct(self, x):
        return x * 2.0


def leaf(*values):
    return Tensor(np.array(values), requires_grad=True)


def lists(grads):
    return [None if g is None else g.numpy().tolist() for g in grads]


def test_forward_pre_hooks_replace_inputs_and_forward_hooks_the_output():
    cell, seen = Double(), []
    cell.register_forward_pre_hook(lambda c, inputs: inputs[0] + 1.0)  # a single value counts as a tuple of one
    cell.register_forward_pre_hook(lambda c, inputs: seen.append(inputs[0].item()))
    cell.register_forward_hook(lambda c, inputs, output: output * 10.0)
    cell.register_forward_hook(lambda c, inputs, output: seen.append((inputs[0].item(), output.item())))
    assert cell(Tensor(1.0)).item() == 40.0
    assert seen == [2.0, (2.0, 40.0)]


def test_backward_hooks_see_the_gradients_of_all_inputs_and_outputs_together():
    cell, seen = Mix(), []
    cell.register_backward_pre_hook(lambda c, go: seen.append(lists(go)))
    cell.register_backward_hook(lambda c, gi, go: seen.append((lists(gi), lists(go))))
    a, b = leaf(1.0, 1.0), leaf(4.0, 5.0)
    p, q = cell(a, b)
    (p.sum() + 2.0 * q.sum()).backward()
    assert seen == [[[1, 1], [2, 2]], ([[10, 13], [2, 2]], [[1, 1], [2, 2]])]
    assert [a.grad.tolist(), b.grad.tolist(), cell.w.grad.tolist()] == [[10, 13], [2, 2], [1, 1]]


def test_an_output_without_gradient_and_an_input_that_needs_none_are_none():
    cell, seen = Mix(), []
    cell.register_backward_hook(lambda c, gi, go: seen.append((lists(gi), lists(go))))
    p, _ = cell(leaf(1.0, 1.0), Tensor(np.array([4.0, 5.0])))
    p.sum().backward()
    assert seen == [([[2, 3], None], [[1, 1], None])]


def test_a_first_layer_is_seen_though_its_input_needs_no_gradient():
    cell, seen = Mix(), []
    cell.register_backward_hook(lambda c, gi, go: seen.append((lists(gi), lists(go))))
    p, _ = cell(Tensor(np.ones(2)), Tensor(np.ones(2)))
    p.sum().backward()
    assert seen == [([None, None], [[1, 1], None])]


def test_backward_hooks_change_what_flows():
    cell = Mix()
    cell.register_backward_pre_hook(lambda c, go: tuple(None if g is None else g * 10.0 for g in go))
    cell.register_backward_hook(lambda c, gi, go: (gi[0] * 0.0 + 7.0, gi[1]))
    a, b = leaf(1.0, 1.0), leaf(4.0, 5.0)
    p, q = cell(a, b)
    (p.sum() + q.sum()).backward()
    assert cell.w.grad.tolist() == [10, 10]
    assert b.grad.tolist() == [10, 10]
    assert a.grad.tolist() == [7, 7]


def test_a_wrong_number_of_gradients_is_refused_in_words():
    cell = Mix()
    cell.register_backward_hook(lambda c, gi, go: (gi[0],))
    p, _ = cell(leaf(1.0, 1.0), leaf(4.0, 5.0))
    with pytest.raises(ValueError, match="returned 1 gradients for grad_input; expected 2 or None"):
        p.sum().backward()


def test_each_call_of_a_cell_is_seen_on_its_own_the_last_first():
    cell, seen = Double(), []
    cell.register_backward_hook(lambda c, gi, go: seen.append((gi[0].item(), go[0].item())))
    x = Tensor(1.0, requires_grad=True)
    cell(cell(x)).backward()
    assert seen == [(2.0, 1.0), (4.0, 2.0)]
    assert x.grad.item() == 4.0


def test_an_input_used_twice_by_a_call_and_elsewhere_gets_only_the_calls_share_in_the_hook():
    cell, seen = Mix(), []
    cell.register_backward_hook(lambda c, gi, go: seen.append(lists(gi)))
    a = leaf(1.0, 1.0)
    p, q = cell(a, a)
    (p.sum() + q.sum() + 100.0 * a.sum()).backward()
    assert seen == [[[3, 4], [1, 1]]]
    assert a.grad.tolist() == [104, 105]


@pytest.mark.parametrize("as_list", [False, True])
def test_outputs_of_mixed_kinds_keep_their_shape(as_list):
    class Several(Cell):
        def construct(self, x):
            out = (x * 2.0, "word", None, Tensor(np.array([1])))
            return list(out) if as_list else out

    cell, seen = Several(), []
    cell.register_backward_pre_hook(lambda c, go: seen.append(lists(go)))
    out = cell(leaf(1.0))
    assert type(out) is (list if as_list else tuple)
    assert out[1:3] == (["word", None] if as_list else ("word", None))
    out[0].sum().backward()
    assert seen == [[[1.0], None]]


@pytest.mark.parametrize("kind", ["forward_pre", "forward", "backward_pre", "backward"])
def test_a_hook_may_remove_itself_and_later_ones_while_it_runs(kind):
    cell, seen = Double(), []

    def first(*_):
        seen.append("first")
        handles[0].remove()
        handles[1].remove()

    register = getattr(cell, f"register_{kind}_hook")
    handles = [register(first), register(lambda *_: seen.append("second"))]
    register(lambda *_: seen.append("third"))
    for _ in range(2):
        cell(leaf(1.0)).sum().backward()
    assert seen == ["first", "third", "third"]


@pytest.mark.parametrize("kind", ["forward_pre", "forward", "backward_pre", "backward"])
def test_an_exception_in_a_hook_reaches_the_caller_and_leaves_the_cell_usable(kind):
    cell = Double()

    def fail(*_):
        raise KeyError("hook")

    handle = getattr(cell, f"register_{kind}_hook")(fail)
    with pytest.raises(KeyError, match="hook"):
        cell(leaf(1.0)).sum().backward()
    handle.remove()
    x = leaf(1.0)
    cell(x).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_backward_hooks_wait_while_nothing_is_recorded():
    cell, seen = Double(), []
    cell.register_backward_hook(lambda *_: seen.append(1))
    with no_grad():
        assert not cell(leaf(1.0)).requires_grad
    assert cell(Tensor(np.array([1.0]))).numpy().tolist() == [2.0]
    assert not seen


def test_second_derivatives_pass_through_hooked_cells():
    class Cube(Cell):
        def construct(self, x):
            return x * x * x

    cell, seen = Cube(), []
    cell.register_backward_hook(lambda c, gi, go: seen.append(gi[0].item()))
    second = grad(grad(lambda x: cell(x)))(Tensor(np.array(2.0)))
    assert second.item() == 12.0
    assert 12.0 in seen


def test_a_cell_whose_hooks_were_removed_gives_the_very_tensor_of_construct():
    class Same(Cell):
        def construct(self, x):
            return x

    cell, x = Same(), leaf(1.0)
    handle = cell.register_backward_hook(lambda *_: None)
    assert cell(x) is not x
    handle.remove()
    assert cell(x) is x
