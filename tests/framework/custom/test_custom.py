"""Operators of one's own: C++ through the system's compiler, numba, and what goes wrong with them."""

import itertools

import numba
import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, ShapeError, Tensor, grad, ops, vmap
from mindscope.framework.compiler.jit import jit
from mindscope.framework.custom import CompileError, CustomOpBuilder, custom_op, find_compiler
from mindscope.framework.errors import EngineError, NameTaken
from mindscope.framework.specs import Spec
from mindscope.framework.testing import check_gradients
from mindscope.framework.vmap import BATCHING, batching

_numbers = itertools.count()
X = np.random.default_rng(0).normal(size=(3, 4))

SOURCE = """
#include "mindscope.h"
MINDSCOPE_KERNEL(NAME) {
    const double* x = arrays[0].as<double>();
    double* y = arrays[1].as<double>();
    if (numbers[0] < 0) return 7;
    for (long long i = 0; i < arrays[0].size(); ++i) y[i] = std::sin(numbers[0] * x[i]);
    return 0;
}
"""


@pytest.fixture
def name():
    """A name for a primitive that is taken out of the table again."""
    word = f"operator_of_test_{next(_numbers)}"
    yield word
    PRIMITIVES.pop(word, None)
    BATCHING.pop(word, None)


def write(folder, name, source=SOURCE):
    path = folder / f"{name}.cpp"
    path.write_text(source.replace("NAME", name))
    return path


def sine(folder, name):
    library = CustomOpBuilder(name, write(folder, name), cache=folder / "cache").load()
    return library.operator(
        name,
        infer=lambda x, *, factor: x,
        vjp=(lambda g, _, x, *, factor: g * ops.cos(x * factor) * factor,),
        numbers=("factor",),
    )


def test_a_cpp_kernel_is_an_operator_with_a_derivative(tmp_path, name):
    operator = sine(tmp_path, name)
    np.testing.assert_allclose(operator(Tensor(X), factor=1.5).numpy(), np.sin(1.5 * X), rtol=1e-15)
    check_gradients(lambda x: operator(x, factor=1.5), Tensor(X))


def test_it_is_compiled_into_graphs_and_mapped_once_it_has_a_rule(tmp_path, name):
    operator = sine(tmp_path, name)
    found = jit(grad(lambda x: operator(x, factor=2.0).sum()), capture_mode="trace")(Tensor(X))
    np.testing.assert_allclose(found.numpy(), 2 * np.cos(2 * X), rtol=1e-12)
    with pytest.raises(EngineError, match="has no batching rule; register one with @batching"):
        vmap(lambda x: operator(x, factor=2.0))(Tensor(X))
    batching(name)(lambda call: call.apply(*call.inputs))
    np.testing.assert_allclose(vmap(lambda x: operator(x, factor=2.0))(Tensor(X)).numpy(), np.sin(2 * X), rtol=1e-12)


def test_strided_inputs_are_made_dense(tmp_path, name):
    operator = sine(tmp_path, name)
    np.testing.assert_allclose(operator(Tensor(X.T[::2]), factor=1.0).numpy(), np.sin(X.T[::2]), rtol=1e-15)


def test_equal_sources_are_compiled_once(tmp_path, name, monkeypatch):
    builder = CustomOpBuilder(name, write(tmp_path, name), cache=tmp_path / "cache")
    builder.load()
    (library,) = (tmp_path / "cache").iterdir()
    monkeypatch.setattr(CustomOpBuilder, "_compile", lambda *_: pytest.fail("compiled again"))
    CustomOpBuilder(name, write(tmp_path, name), cache=tmp_path / "cache").load()
    assert [library] == list((tmp_path / "cache").iterdir())


def test_an_error_of_the_compiler_is_shown_with_file_and_line(tmp_path, name):
    path = write(tmp_path, name, SOURCE.replace("std::sin", "std::sine"))
    with pytest.raises(CompileError, match=rf"do not compile:(.|\n)*{name}\.cpp:7.*sine"):
        CustomOpBuilder(name, path, cache=tmp_path / "cache").load()


def test_a_kernel_that_reports_an_error_is_named(tmp_path, name):
    with pytest.raises(EngineError, match=f"the kernel '{name}' .* returned error 7"):
        sine(tmp_path, name)(Tensor(X), factor=-1.0)


def test_missing_things_are_named(tmp_path, name, monkeypatch):
    with pytest.raises(CompileError, match="there is no source file"):
        CustomOpBuilder(name, tmp_path / "nothing.cpp")
    library = CustomOpBuilder(name, write(tmp_path, name), cache=tmp_path / "cache").load()
    with pytest.raises(CompileError, match=r"has no kernel 'other'; define it as MINDSCOPE_KERNEL\(other\)"):
        library.operator("other", infer=lambda x: x)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompileError, match="install one, or name it"):
        find_compiler()


def test_a_numba_function_is_an_operator(name):
    @numba.njit
    def smooth(x, out):
        for i in range(x.shape[0]):
            for j in range(1, x.shape[1]):
                out[i, j - 1] = 0.5 * (x[i, j] + x[i, j - 1])

    def rule(g, _, x):
        return 0.5 * (ops.pad(g, ((0, 0), (0, 1))) + ops.pad(g, ((0, 0), (1, 0))))

    operator = custom_op(name, smooth, infer=lambda x: Spec((x.shape[0], x.shape[1] - 1), x.dtype), vjp=(rule,))
    np.testing.assert_allclose(operator(Tensor(X)).numpy(), (X[:, 1:] + X[:, :-1]) / 2)
    check_gradients(operator, Tensor(X))


def test_a_function_that_returns_its_result_is_held_to_what_it_promised(name):
    operator = custom_op(name, lambda x: x[:1], infer=lambda x: x, out=False)
    with pytest.raises(ShapeError, match=r"returned \(1, 4\) float64, but infer says \(3, 4\) float64"):
        operator(Tensor(X))
    with pytest.raises(NameTaken, match="another name"):
        custom_op(name, lambda x: x, infer=lambda x: x)


def test_without_a_rule_no_gradient_flows(name):
    operator = custom_op(name, lambda x: x * 2.0, infer=lambda x: x, out=False)
    assert not operator(Tensor(X, requires_grad=True)).requires_grad
