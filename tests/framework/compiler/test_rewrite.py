"""Patterns, what takes their place, and passes of users."""

import numpy as np
import pytest
from mindscope.framework import Tensor, ops
from mindscope.framework.compiler import jit, pipeline
from mindscope.framework.compiler.rewrite import CallPattern, Wildcard, apply_rewrites, rewrite, rewriting
from mindscope.framework.errors import EngineError, NameTaken
from mindscope.framework.ir.verify import verify
from mindscope.framework.ir.visit import order
from mindscope.framework.specs import Spec

from tests.framework.compiler.captured import captured

_x, _y = Wildcard("x"), Wildcard("y")
_SPEC = Spec((3,), np.dtype(np.float64))


def _names(graph):
    return [node.inputs[0].value.name for node in order(graph)]


def test_a_pattern_is_replaced_wherever_it_stands_and_in_what_was_built():
    turn = ops.negative
    graph = captured(lambda x: turn(turn(turn(turn(x + 1.0)))), [_SPEC])
    twice = rewrite(CallPattern("negative", CallPattern("negative", _x)), _x)
    assert _names(apply_rewrites(graph, [twice])) == ["add"]
    assert _names(graph).count("negative") == 4  # the graph that was given is left alone


def test_a_variable_that_stands_twice_must_meet_the_same_node():
    rule = rewrite(CallPattern("subtract", _x, _x), CallPattern("multiply", _x, 0.0))
    assert _names(apply_rewrites(captured(lambda x, y: x - y, [_SPEC] * 2), [rule])) == ["subtract"]
    assert _names(apply_rewrites(captured(lambda x: x - x, [_SPEC]), [rule])) == ["multiply"]


def test_a_guard_and_attributes_decide():
    seen = []

    @rewriting(CallPattern("sum", _x, axes=(0,), keepdims=Wildcard("kept")))
    def note(found):
        seen.append(found["kept"])

    apply_rewrites(captured(lambda x: x.sum(0, keepdims=True), [_SPEC]), [note])
    assert seen == [True]
    only_big = Wildcard("x", when=lambda node: node.type.shape[0] > 5)
    rule = rewrite(CallPattern("negative", only_big), only_big)
    assert _names(apply_rewrites(captured(lambda x: -x, [_SPEC]), [rule])) == ["negative"]


def test_rules_that_undo_each_other_are_named():
    there = rewrite(CallPattern("add", _x, _y), CallPattern("subtract", _x, _y))
    back = rewrite(CallPattern("subtract", _x, _y), CallPattern("add", _x, _y))
    with pytest.raises(EngineError, match="undo each other"):
        apply_rewrites(captured(lambda x, y: x + y, [_SPEC] * 2), [there, back])


def test_a_replacement_of_another_type_is_refused():
    with pytest.raises(EngineError, match="keep shape and dtype"):
        apply_rewrites(captured(lambda x: x.sum(), [_SPEC]), [rewrite(CallPattern("sum", _x), _x)])


def test_a_custom_pass_changes_what_compiled_functions_compute_until_it_is_taken_out():
    x = Tensor(np.arange(3.0))
    pipeline.register_custom_pass(
        "sine-to-cosine", rewrite(CallPattern("sin", _x), CallPattern("cos", _x)), stage="before"
    )
    try:
        with pytest.raises(NameTaken, match="sine-to-cosine"):
            pipeline.register_custom_pass("sine-to-cosine", rewrite(CallPattern("sin", _x), _x))
        np.testing.assert_allclose(jit(lambda x: ops.sin(x), capture_mode="trace")(x).numpy(), np.cos(x.numpy()))
        plain = jit(lambda x: ops.sin(x), capture_mode="trace", jit_level="O0")
        np.testing.assert_allclose(plain(x).numpy(), np.sin(x.numpy()))
    finally:
        pipeline.unregister_custom_pass("sine-to-cosine")
    np.testing.assert_allclose(jit(lambda x: ops.sin(x), capture_mode="trace")(x).numpy(), np.sin(x.numpy()))
    with pytest.raises(KeyError, match="no custom pass"):
        pipeline.unregister_custom_pass("sine-to-cosine")


def test_a_custom_pass_of_another_backend_is_not_run():
    pipeline.register_custom_pass("only-xla", rewrite(CallPattern("sin", _x), _x), backend="xla")
    try:
        assert _names(pipeline.optimize(captured(lambda x: ops.sin(x), [_SPEC]))) == ["sin"]
    finally:
        pipeline.unregister_custom_pass("only-xla")


def test_bad_custom_passes_are_refused():
    with pytest.raises(ValueError, match="rewrite rules or run="):
        pipeline.register_custom_pass("nothing")
    with pytest.raises(ValueError, match="stage"):
        pipeline.register_custom_pass("when", run=lambda graph: graph, stage="sometimes")
    pipeline.register_custom_pass("forgets", run=lambda graph: None)
    try:
        with pytest.raises(EngineError, match="'forgets' expects to return a Graph"):
            pipeline.optimize(captured(lambda x: -x, [_SPEC]))
    finally:
        pipeline.unregister_custom_pass("forgets")


def test_every_pass_leaves_a_well_formed_graph():
    count = []
    graph = captured(lambda x: ops.gelu(x * 1.0 + 0.0) + (x - x), [_SPEC])
    pipeline.optimize(graph, check=lambda made: (verify(made), count.append(1)))
    assert len(count) == len(pipeline.PASSES)
