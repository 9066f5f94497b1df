"""What rules ask of the structure."""

from mindscope.insight.context.model_index import ModelIndex
from mindscope.insight.recording import chain
from mindscope.storage import ModuleInfo, ParameterInfo, Structure

MODEL = chain("embed:Embedding", "block.up:Dense", "block.down:Dense", "head:Dense")


def test_a_parameter_belongs_to_the_module_before_its_last_dot():
    model = ModelIndex(MODEL)
    assert model.owner("block.up.weight") == "block.up"
    assert model.owner("block.up") == "block.up"
    assert model.order("block.down.weight") == 2
    assert model.consumers("block.up") == ("block.down",)


def test_embeddings_biases_and_gains_are_no_matrices():
    structure = Structure(
        modules=(ModuleInfo("norm", "LayerNorm"), ModuleInfo("fc", "Linear"), ModuleInfo("tok", "Embedding")),
        parameters=(
            ParameterInfo("norm.weight", (8,), "float32"),
            ParameterInfo("fc.weight", (8, 8), "float32"),
            ParameterInfo("fc.bias", (8,), "float32"),
            ParameterInfo("tok.weight", (8, 8), "float32"),
        ),
    )
    model = ModelIndex(structure)
    assert [site for site in model.parameters if model.is_matrix(site)] == ["fc.weight"]


def test_parameters_are_gathered_under_the_widest_module_that_holds_no_others():
    model = ModelIndex(MODEL)
    infos = tuple(model.parameters[name] for name in ("block.up.weight", "block.down.weight"))
    assert list(model.gather(infos)) == ["block"]
    assert list(model.gather(infos[:1])) == ["block.up"]


def test_running_statistics_are_not_meant_to_be_trained():
    model = ModelIndex(Structure())
    assert not model.is_trainable(ParameterInfo("bn.moving_mean", (4,), "float32", requires_grad=False))
    assert model.is_trainable(ParameterInfo("bn.gamma", (4,), "float32"))


def test_a_glob_declares_a_whole_module_as_frozen_on_purpose():
    model = ModelIndex(MODEL, ("block",))
    assert model.is_expected_frozen("block.up.weight")
    assert not model.is_expected_frozen("head.weight")
