"""Work split between threads gives what one thread gives, raises what a part raises, and leaves BLAS as it was."""

import threading

import numpy as np
import pytest
from mindscope.framework import Tensor, ops, value_and_grad
from mindscope.framework.backends.numpy import executable, into_kernels, threads
from mindscope.framework.compiler import jit

_BIG = 256


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(into_kernels, "_WORTH_A_THREAD", 0)
    for module in (threads, into_kernels):
        monkeypatch.setattr(module, "thread_count", lambda: 2)
    monkeypatch.setattr(executable, "thread_count", lambda: 2)


def test_parts_cover_every_index_once():
    for length in (0, 1, 5, 64):
        for count in (1, 2, 3):
            indices = [i for part in threads.parts_of(length, count) for i in range(length)[part]]
            assert indices == list(range(length))


def test_a_large_product_is_split_and_stays_the_same(two_threads):
    rng = np.random.default_rng(0)
    for shapes in (((512, _BIG), (_BIG, 128)), ((64, _BIG), (_BIG, 1024)), ((4, 128, _BIG), (4, _BIG, 128))):
        a, b = (rng.normal(size=shape) for shape in shapes)
        run = jit(lambda a, b: ops.matmul(a, b), capture_mode="trace")
        np.testing.assert_allclose(run(Tensor(a), Tensor(b)).numpy(), a @ b, rtol=1e-12, atol=1e-12)


def test_attention_is_split_by_the_batch(two_threads):
    rng = np.random.default_rng(0)
    q, k, v = (Tensor(rng.normal(size=(3, 2, 70, 8)).transpose(0, 1, 2, 3)) for _ in range(3))

    def attend(q, k, v):
        return ops.scaled_dot_product_attention(q * 1.0, k * 1.5, v * 0.5, causal=True) + 1.0

    found = jit(attend, capture_mode="trace")(q, k, v).numpy()
    np.testing.assert_allclose(found, attend(q, k, v).numpy(), rtol=1e-12, atol=1e-12)


def test_convolution_and_its_gradients_are_split_by_images(two_threads):
    rng = np.random.default_rng(0)
    x, w, b = (Tensor(rng.normal(size=shape)) for shape in ((5, 2, 7, 6), (3, 2, 3, 3), (3,)))

    def loss(x, w, b):
        return (ops.conv2d(x, w, b, padding=1) ** 2).sum()

    differentiated = value_and_grad(loss, (0, 1, 2))
    value, found = jit(differentiated, capture_mode="trace")(x, w, b)
    expected, gradients = differentiated(x, w, b)
    np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=1e-12)
    for y, z in zip(found, gradients, strict=True):
        np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-12, atol=1e-12)


def test_an_error_in_a_part_is_raised_where_the_work_was_asked_for():
    def fail():
        raise ValueError("a part failed")

    with pytest.raises(ValueError, match="a part failed"):
        threads.at_once([(lambda: None, ()), (fail, ())])
    done = []
    threads.at_once([(done.append, (i,)) for i in range(3)])  # and the threads go on working
    assert sorted(done) == [0, 1, 2]


def test_work_inside_work_is_done_in_place():
    done = []
    inner = [(done.append, (i,)) for i in range(2)]
    threads.at_once([(threads.at_once, (inner,)), (threads.at_once, (inner,))])
    assert sorted(done) == [0, 0, 1, 1]


def test_blas_has_as_many_threads_afterwards_as_before():
    before = threads.thread_count()
    with threads.single_threaded_blas():
        assert threads.thread_count() == 1
    assert threads.thread_count() == before


def test_one_compiled_function_runs_in_two_threads_at_once():
    rng = np.random.default_rng(0)
    weight = Tensor(rng.normal(size=(64, 64)))
    run = jit(lambda x: ops.tanh(ops.matmul(x, weight)) + x, capture_mode="trace")
    inputs = [rng.normal(size=(64, 64)) for _ in range(8)]
    run(Tensor(inputs[0]))
    found = [None] * 8

    def work(i):
        for _ in range(20):
            found[i] = run(Tensor(inputs[i])).numpy()

    crew = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    for x, y in zip(inputs, found, strict=True):
        np.testing.assert_allclose(y, np.tanh(x @ weight.numpy()) + x, rtol=1e-12, atol=1e-12)
