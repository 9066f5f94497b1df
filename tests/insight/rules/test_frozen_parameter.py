"""What is frozen by mistake is a warning, what is frozen as people do on purpose a notice."""

from dataclasses import replace

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain

LAYERS = ("one:Dense", "two:Dense", "three:Dense", "head:Dense")
PAIR = chain("student:Dense", "teacher:Dense", frozen=["teacher.weight"])
BESIDE = replace(PAIR, modules=tuple(replace(module, inputs=()) for module in PAIR.modules))


def severities(recording):
    engine = Engine({"frozen-parameter": RULES["frozen-parameter"]})
    engine.learn_structure(recording.structure)
    return [found.severity for record in recording.records() for found in engine.observe(record)]


def wide(structure, site):
    """The same, where one layer holds most of the weights."""
    sizes = {f"{site}.weight": (100, 100)}
    parameters = (replace(item, shape=sizes.get(item.site, item.shape)) for item in structure.parameters)
    return replace(structure, parameters=tuple(parameters))


def test_all_layers_but_the_head_are_fine_tuning_however_wide_the_head_is():
    frozen = chain(*LAYERS, frozen=["one.weight", "two.weight", "three.weight"])
    assert severities(Recording(structure=wide(frozen, "head"))) == ["info"]


def test_half_of_the_layers_are_not():
    frozen = chain(*LAYERS, frozen=["one.weight", "two.weight"])
    assert severities(Recording(structure=wide(frozen, "head"))) == ["warning", "warning"]


@pytest.mark.parametrize(
    ("series", "structure", "severity"),
    [
        ({"student activation_grad/l2_norm": 1.0, "teacher activation/l2_norm": 1.0}, BESIDE, "info"),
        # a gradient begins at it: a head of its own, with a loss of its own
        ({"student activation_grad/l2_norm": 1.0, "teacher activation_grad/l2_norm": 1.0}, BESIDE, "warning"),
        # it stands behind the student, and what it gives is compared
        ({"student activation_grad/l2_norm": 1.0, "teacher activation_grad/l2_norm": 1.0}, PAIR, "warning"),
        # nobody looked where gradients come
        ({"student activation/l2_norm": 1.0, "teacher activation/l2_norm": 1.0}, BESIDE, "warning"),
    ],
    ids=["teacher", "head", "behind", "unknown"],
)
def test_a_network_beside_the_trained_one_that_no_gradient_comes_to_is_meant(series, structure, severity):
    assert severities(Recording(series, structure)) == [severity]


def test_a_frozen_stem_that_trained_layers_take_is_not_beside_them():
    stem = chain("stem:Dense", "head:Dense", frozen=["stem.weight"])
    assert severities(Recording({"head activation_grad/l2_norm": 1.0, "stem activation/l2_norm": 1.0}, stem)) == [
        "warning"
    ]
