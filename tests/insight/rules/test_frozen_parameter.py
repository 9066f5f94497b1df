"""What is frozen from the start is a question, what stops to train a warning, what trains later a notice."""

from dataclasses import replace

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain

LAYERS = ("one:Dense", "two:Dense", "three:Dense", "head:Dense")


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


def test_a_layer_that_is_frozen_from_the_start_is_a_question():
    frozen = chain(*LAYERS, frozen=["one.weight", "two.weight"])
    assert severities(Recording(structure=wide(frozen, "head"))) == ["info", "info"]


def found(structures, series):
    """The findings of a run whose structure changes, each with the records that come after it."""
    engine = Engine({"frozen-parameter": RULES["frozen-parameter"]})
    for structure, recording in zip(structures, series, strict=True):
        engine.learn_structure(structure)
        for record in Recording(recording).records():
            engine.observe(replace(record, step=engine.records))
    return [(finding.site, finding.severity, finding.confidence) for finding in engine.findings]


def test_a_layer_that_stops_to_train_is_a_warning_and_one_that_starts_later_was_none():
    gradient = {f"{layer.partition(':')[0]}.weight gradient/l2_norm": (1.0,) * 5 for layer in LAYERS}
    frozen, free = chain(*LAYERS, frozen=["two.weight"]), chain(*LAYERS)
    ((site, severity, _),) = found((free, frozen), (gradient, gradient | {"two.weight gradient/l2_norm": (None,) * 5}))
    assert (site, severity) == ("two", "warning")
    assert found((frozen, free), (gradient | {"two.weight gradient/l2_norm": (None,) * 5}, gradient)) == [
        ("two", "info", 0.1)
    ]


@pytest.mark.parametrize(("stepped", "severity"), [(2.0, "info"), (1.0, "warning"), (3.0, "warning")])
def test_a_layer_whose_optimizer_steps_no_more_is_a_question(stepped, severity):
    """Of two optimizers, the first holds all layers and the second, which is made with the second phase, the head."""
    gradient = {f"{layer.partition(':')[0]}.weight gradient/l2_norm": (1.0,) * 20 for layer in LAYERS}
    model = chain(*LAYERS, frozen=["two.weight"])
    head = model.parameters[-1]
    assert head.site == "head.weight"
    model = replace(model, parameters=(*model.parameters[:-1], replace(head, more_groups=((1, 0),))))
    later = gradient | {"two.weight gradient/l2_norm": (None,) * 20, "scalar/learner/stepped": (None, *(stepped,) * 19)}
    ((site, said, confidence),) = found((chain(*LAYERS), model), (gradient, later))
    assert (site, said) == ("two", severity)
    assert confidence > 0.3, "asked, and not withdrawn"


def test_a_gradient_that_comes_late_withdraws_the_warning():
    waits = {"one.weight gradient/l2_norm": (1.0,) * 40, "two.weight gradient/l2_norm": (*(0.0,) * 20, *(1.0,) * 20)}
    engine = Engine({"frozen-parameter": RULES["frozen-parameter"]})
    engine.learn_structure(chain("one:Dense", "two:Dense"))
    said = [item.severity for record in Recording(waits).records() for item in engine.observe(record)]
    assert said == ["warning", "info"]
    assert ["and does since step 20" in finding.explanation for finding in engine.findings] == [True]


def test_a_module_that_was_never_called_is_a_question():
    model = chain("one:Dense", "pooler:Dense")
    modules = tuple(replace(item, order=-1) if item.site == "pooler" else item for item in model.modules)
    series = {"one.weight gradient/l2_norm": (1.0,) * 14, "pooler.weight gradient/l2_norm": (None,) * 14}
    assert severities(Recording(series, replace(model, modules=modules))) == ["info"]


BLOCKS = ("blocks.0.back:Dense", "blocks.0.fore:Dense", "blocks.1.back:Dense", "blocks.1.fore:Dense")


@pytest.mark.parametrize(
    ("without", "severity"),
    [
        (("blocks.1.back",), "info"),  # what the last block would hand on
        (("blocks.0.back",), "warning"),  # a block follows it
        (("blocks.1.back", "blocks.1.fore"), "warning"),  # the whole last block
        (("blocks.0.back", "blocks.1.back"), "warning"),  # those before it as well
    ],
)
def test_what_the_last_of_several_blocks_hands_on_is_a_question(without, severity):
    sites = [layer.partition(":")[0] for layer in BLOCKS]
    series = {f"{site}.weight gradient/l2_norm": (None if site in without else 1.0,) * 14 for site in sites}
    told = severities(Recording(series, chain(*BLOCKS)))
    assert told
    assert set(told) == {severity}
