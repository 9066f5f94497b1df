"""Reverse mode: accumulation, hooks, freed graphs, changed tensors, and arrays that nobody shares by accident."""

import gc
import weakref

import numpy as np
import pytest
from mindscope.framework import (
    ChangedTensorError,
    FreedGraphError,
    GradientError,
    Parameter,
    ShapeError,
    Tensor,
    gradients,
    nn,
    no_grad,
    ops,
    register_backward_start_hook,
)


def leaf(*numbers):
    return Tensor(np.array(numbers, np.float64), requires_grad=True)


def test_backward_adds_to_grad_and_zeroing_is_up_to_the_caller():
    x = leaf(1.0, 2.0)
    for _ in range(3):
        (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 12.0])


def test_a_tensor_used_many_times_gets_every_share():
    x = leaf(2.0)
    y = x
    for _ in range(5):
        y = y * x + x
    y.sum().backward()
    value = sum(n * 2.0 ** (n - 1) for n in range(1, 7))
    assert float(x.grad) == value


def test_gradients_of_two_leaves_do_not_share_an_array():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).sum().backward()
    a.grad.numpy()[:] = 0.0
    np.testing.assert_array_equal(b.grad.numpy(), [1.0, 1.0])


@pytest.mark.parametrize("view", [lambda x: x.reshape(2, 2), lambda x: x[::-1], lambda x: ops.identity(x)])
def test_the_gradient_given_to_backward_is_never_written_to(view):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = view(x)
    given = Tensor(np.ones(y.shape))
    y.backward(given)
    x.grad.numpy()[:] = 7.0
    assert (given.numpy() == 1.0).all()


def test_gradients_of_leaves_are_contiguous():
    w = Tensor(np.ones((3, 2)), requires_grad=True)
    (w.swapaxes(0, 1) @ Tensor(np.arange(3.0))).sum().backward()
    assert w.grad.numpy().flags.c_contiguous


def test_backward_of_a_vector_needs_weights():
    x = leaf(1.0, 2.0)
    with pytest.raises(GradientError, match="needs a weight for each element"):
        (x * x).backward()
    with pytest.raises(ShapeError, match="expects the shape of the tensor"):
        (x * x).backward(Tensor(np.ones(3)))


def test_backward_without_a_recorded_leaf_says_why():
    with pytest.raises(GradientError, match="nothing it was computed from requires one"):
        Tensor([1.0]).sum().backward()
    x = leaf(1.0)
    with no_grad():
        y = x * x
    with pytest.raises(GradientError, match="no_grad"):
        y.backward()


def test_a_freed_graph_refuses_and_a_retained_one_does_not():
    x = leaf(3.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert float(x.grad) == 12.0
    with pytest.raises(FreedGraphError, match="retain_graph=True"):
        y.backward()


def test_a_change_in_place_after_use_is_found():
    w = Parameter(np.ones(3), "w")
    y = (w * w).sum()
    w.set_data(np.zeros(3))
    with pytest.raises(ChangedTensorError, match=r"argument 0 of 'multiply' \(parameter 'w'\).*changed in place"):
        y.backward()


def test_a_change_through_a_detached_alias_is_found():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    x.detach()[0] = 5.0
    with pytest.raises(ChangedTensorError):
        y.backward()


def test_a_change_before_use_is_none_of_our_business():
    x = leaf(1.0)
    x.copy_([3.0])
    (x * x).sum().backward()
    assert float(x.grad) == 6.0


def test_hooks_on_a_leaf_and_on_a_result_see_and_replace_the_whole_gradient():
    x, seen = leaf(1.0, 2.0), []
    y = x * 3.0
    y.register_hook(lambda g: seen.append(("y", g.numpy().copy())))
    x.register_hook(lambda g: g * 10.0)
    (y + y).sum().backward()
    assert seen[0][0] == "y"
    np.testing.assert_array_equal(seen[0][1], [2.0, 2.0])
    np.testing.assert_array_equal(x.grad.numpy(), [60.0, 60.0])


def test_a_removed_hook_is_not_called_even_when_another_removes_it():
    x, calls = leaf(1.0), []
    handles = []
    x.register_hook(lambda g: handles[0].remove())
    handles.append(x.register_hook(lambda g: calls.append(1)))
    x.sum().backward()
    assert calls == []
    handles[0].remove()


def test_a_hook_where_no_gradient_comes_is_refused():
    with pytest.raises(GradientError, match="requires no gradient"):
        Tensor([1.0]).register_hook(lambda g: None)


def test_backward_start_hook_sees_the_root_once_a_pass():
    roots = []
    with register_backward_start_hook(roots.append):
        x = leaf(1.0, 2.0)
        y = ops.layer_norm(x.reshape(1, 2), Tensor(np.ones(2)), Tensor(np.ones(2))).sum()
        y.backward()
    (x * x).sum().backward()
    assert len(roots) == 1
    assert roots[0] is y


def test_create_graph_makes_grad_differentiable():
    x = leaf(2.0)
    (x * x * x).sum().backward(create_graph=True)
    first = x.grad
    x.grad = None
    first.sum().backward()
    assert float(x.grad) == 12.0


def test_gradients_leaves_grad_alone_and_answers_none_for_strangers():
    x, y = leaf(2.0), leaf(5.0)
    found = gradients((x * x).sum(), [x, y])
    assert float(found[0]) == 4.0
    assert found[1] is None
    assert x.grad is None


def test_gradients_by_a_result_in_the_middle():
    x = leaf(2.0)
    middle = x * 3.0
    (found,) = gradients((middle * middle).sum(), [middle])
    assert float(found) == 12.0


def test_gradients_visit_only_what_leads_to_a_target(monkeypatch):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    visited = []
    side = w * 2.0
    side.register_hook(lambda g: visited.append(1))
    gradients((x * side).sum(), [x])
    assert visited == []


def test_an_exception_in_a_hook_leaves_no_trace():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * x).sum().backward()
    handle.remove()
    (x * x).sum().backward()
    assert float(x.grad) == 2.0


def test_recorded_results_are_freed_without_the_cycle_collector():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = ops.exp(x) * x
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_integer_results_carry_no_gradient():
    x = leaf(1.0, 3.0, 2.0)
    assert not x.argmax().requires_grad
    assert not x.astype("int64").requires_grad


def test_no_grad_nests_and_decorates():
    x = leaf(1.0)
    guard = no_grad()
    with guard:
        with guard:
            pass
        assert not (x * x).requires_grad
    assert (x * x).requires_grad
    assert not no_grad()(lambda: x * x)().requires_grad


@pytest.mark.parametrize(
    "view",
    [lambda x: x, lambda x: x.reshape(2, 1), lambda x: x[::-1], lambda x: ops.identity(x), lambda x: x.detach()],
    ids=["itself", "reshape", "slice", "identity", "detach"],
)
def test_a_change_in_place_is_noticed_through_views(view):
    x = Tensor(np.array([1.0, 2.0]))
    w = leaf(3.0)
    y = view(x) * w
    x.copy_([5.0, 6.0])
    with pytest.raises(ChangedTensorError, match=r"argument 0 of 'multiply'"):
        y.sum().backward()


def test_a_change_in_place_is_noticed_through_the_gates_of_hooks():
    cell = nn.Tanh()
    cell.register_backward_hook(lambda *_: None)
    square = nn.SequentialCell(cell)
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    cell.construct = lambda x: x * x
    y = square(x)
    x.copy_([5.0, 6.0])
    with pytest.raises(ChangedTensorError, match="was changed in place"):
        y.sum().backward()


def test_a_tensor_made_anew_does_not_share_the_count_of_changes():
    x = Tensor(np.array([1.0, 2.0]))
    w = leaf(3.0)
    y = (x + 0.0) * w
    x.copy_([5.0, 6.0])
    y.sum().backward()
    assert float(w.grad) == 3.0


def test_retain_grad_keeps_the_gradient_of_a_result():
    x = leaf(1.0, 2.0)
    y = x * x
    y.retain_grad()
    (y * 3.0).sum().backward(retain_graph=True)
    np.testing.assert_array_equal(y.grad.numpy(), [3.0, 3.0])
    with pytest.raises(GradientError, match="retain_grad"):
        Tensor([1.0]).retain_grad()


def test_retain_grad_does_not_keep_the_tensor_alive():
    x = leaf(1.0, 2.0)
    y = x * x
    y.retain_grad()
    z = y.sum()
    gone = weakref.ref(y)
    del y, z
    assert gone() is None  # at once: no cycle through the node
