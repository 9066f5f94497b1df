"""The model as a graph: tree, flow, values at a step, and what differs between two."""

import math

import numpy as np
import pytest
from mindscope.insight.model_graph import graph_difference, model_graph
from mindscope.storage import (
    Block,
    Finding,
    Layout,
    ModuleInfo,
    ParameterInfo,
    StepRecord,
    Structure,
    open_store,
)


def structure(*, kind="Dense", prefix="", head_inputs=("body.1",)):
    def named(site):
        return f"{prefix}{site}" if site else ""

    return Structure(
        modules=(
            ModuleInfo("", "Net", 4, (), is_leaf=False),
            ModuleInfo(named("body"), "Sequential", 2, (), is_leaf=False),
            ModuleInfo(named("body.0"), kind, 0, ()),
            ModuleInfo(named("body.1"), "ReLU", 1, (named("body.0"),), direct=(named("body.0"),)),
            ModuleInfo(named("head"), "Dense", 3, tuple(map(named, head_inputs))),
            ModuleInfo(named("unused"), "Dense"),
        ),
        parameters=(
            ParameterInfo(named("body.0.weight"), (4, 3), "float32", group=(0, 0), storage=1),
            ParameterInfo(named("body.0.bias"), (4,), "float32", storage=2),
            ParameterInfo(named("head.weight"), (4, 3), "float32", group=(0, 0), storage=1),
        ),
    )


GRADIENT = Layout(
    "gradient", ("body.0.weight", "body.0.bias", "head.weight"), ("l2_norm", "max", "zeros"), ("float64",) * 3
)
ACTIVATION = Layout("activation", ("body.0", "head"), ("l2_norm",), ("float64",))


def record(step, *, scale=1.0, activation=5.0):
    gradient = Block(GRADIENT, scale * np.array([[3.0, 1.0, 1.0], [4.0, 7.0, 2.0], [12.0, 0.5, 0.0]]))
    return StepRecord(step, step, blocks=(gradient, Block(ACTIVATION, np.array([[activation], [2.0]]))))


METRICS = ("activation/l2_norm", "gradient/l2_norm", "gradient/max", "gradient/zeros")


def graph_of(records, shape=None, *, findings=(), **options):
    with open_store("memory:") as store:
        writer = store.begin_run("run")
        writer.write_structure(shape or structure())
        writer.write(list(records), findings)
        writer.close()
        return model_graph(store, writer.run.id, metrics=METRICS, **options)


def node(graph, site):
    return next(node for node in graph.nodes if node.site == site)


def test_modules_are_a_tree_in_call_order_and_those_never_called_come_last():
    graph = graph_of([record(0)])
    assert [node.site for node in graph.nodes] == ["body.0", "body.1", "body", "head", "", "unused"]
    assert [node.site for node in graph.children("")] == ["body", "head", "unused"]
    assert [node.site for node in graph.children("body")] == ["body.0", "body.1"]
    assert node(graph, "").parent is None


def test_edges_are_the_flow_of_data_and_know_whether_anything_lay_between():
    edges = {(edge.source, edge.target): edge.is_direct for edge in graph_of([record(0)]).edges}
    assert edges == {("body.0", "body.1"): True, ("body.1", "head"): False}


def test_shared_parameters_count_once_and_trained_ones_are_told_apart():
    graph = graph_of([record(0)])
    assert (node(graph, "").elements, node(graph, "").trained) == (16, 12)
    assert (node(graph, "body.0").elements, node(graph, "head").elements) == (16, 12)
    assert node(graph, "body.1").elements == 0


def test_values_of_parameters_add_up_in_the_modules_around_them():
    graph = graph_of([record(0)])
    assert node(graph, "body.0").values == {
        "activation/l2_norm": 5.0,
        "gradient/l2_norm": 5.0,
        "gradient/max": 7.0,
        "gradient/zeros": 3.0,
    }
    assert node(graph, "").values["gradient/l2_norm"] == pytest.approx(math.sqrt(9 + 16 + 144))
    assert "activation/l2_norm" not in node(graph, "body").values
    assert node(graph, "body.1").values == {}


def test_values_are_of_the_newest_step_or_of_the_one_that_is_asked_for():
    records = [record(0), record(5, scale=2.0), record(9, scale=3.0)]
    assert (graph_of(records).step, node(graph_of(records), "head").values["gradient/l2_norm"]) == (9, 36.0)
    earlier = graph_of(records, step=7)
    assert (earlier.step, node(earlier, "head").values["gradient/l2_norm"]) == (5, 24.0)


def test_what_is_not_finite_is_nan_at_its_module_and_around_it():
    graph = graph_of([record(0, scale=np.nan, activation=np.inf)])
    assert math.isnan(node(graph, "body.0").values["activation/l2_norm"])
    assert math.isnan(node(graph, "").values["gradient/l2_norm"])


def test_findings_stand_at_their_module_and_those_around_it_from_their_step_on():
    def finding(severity, step, site):
        return Finding("r", "dead_units", severity, step, step, site, "m", {}, "e", "a")

    found = [finding("warning", 0, "body.0.bias"), finding("error", 5, "body.1"), finding("info", 9, "head")]
    graph = graph_of([record(0), record(5), record(9)], findings=found, step=6)
    assert [finding.severity for finding in node(graph, "body").findings] == ["error", "warning"]
    assert node(graph, "head").findings == ()
    assert len(node(graph, "body.0").findings) == 1


def test_a_run_without_a_structure_or_a_step_has_an_empty_graph():
    bare = graph_of([], Structure())
    assert (bare.nodes, bare.edges, bare.step) == ((), (), -1)


def test_a_model_differs_from_itself_in_nothing():
    graph = graph_of([record(0)])
    found = graph_difference(graph, graph)
    assert found.count("same") == 6
    assert all(ratio == 1.0 for node in found.nodes for ratio in node.ratios.values())


def test_a_changed_class_other_inputs_and_another_module_are_told():
    first, second = (
        graph_of([record(0)]),
        graph_of([record(0, scale=2.0)], structure(kind="Conv2d", head_inputs=("body.0",))),
    )
    found = {node.first: node for node in graph_difference(first, second).nodes}
    assert found["body.0"].changes == ("kind Dense -> Conv2d",)
    assert found["head"].changes == ("inputs body.1 -> body.0",)
    assert found["body.1"].status == "same"
    assert found["body.0"].ratios["gradient/l2_norm"] == 2.0


def test_renamed_modules_are_paired_and_modules_of_one_model_alone_are_listed():
    smaller = Structure(structure().modules[:-1], structure().parameters)
    found = graph_difference(graph_of([record(0)]), graph_of([record(0)], smaller))
    assert [node.first for node in found.nodes if node.status == "only_first"] == ["unused"]
    wrapped = graph_difference(graph_of([record(0)]), graph_of([], structure(prefix="module.")))
    assert (wrapped.count("only_first"), wrapped.count("only_second")) == (0, 0)
    assert "site head -> module.head" in {change for node in wrapped.nodes for change in node.changes}
    back = graph_difference(graph_of([record(0)], smaller), graph_of([record(0)]))
    assert [node.second for node in back.nodes if node.status == "only_second"] == ["unused"]


def test_a_metric_that_was_recorded_long_ago_is_found():
    records = [record(0), *(StepRecord(step, step) for step in range(1, 400))]
    graph = graph_of(records)
    assert (graph.step, node(graph, "head").values["gradient/l2_norm"]) == (0, 12.0)
