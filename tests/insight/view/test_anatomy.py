"""What rules ask of the structure."""

from mindscope.insight.context.model_index import Anatomy
from mindscope.insight.recording import chain
from mindscope.storage import ModuleInfo, ParameterInfo, Structure

MODEL = chain("embed:Embedding", "block.up:Dense", "block.down:Dense", "head:Dense")


def test_a_parameter_belongs_to_the_module_before_its_last_dot():
    anatomy = Anatomy(MODEL)
    assert anatomy.owner("block.up.weight") == "block.up"
    assert anatomy.owner("block.up") == "block.up"
    assert anatomy.order("block.down.weight") == 2
    assert anatomy.consumers("block.up") == ("block.down",)


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
    anatomy = Anatomy(structure)
    assert [site for site in anatomy.parameters if anatomy.is_matrix(site)] == ["fc.weight"]


def test_parameters_are_gathered_under_the_widest_module_that_holds_no_others():
    anatomy = Anatomy(MODEL)
    both = tuple(anatomy.parameters[name] for name in ("block.up.weight", "block.down.weight"))
    assert list(anatomy.gather(both)) == ["block"]
    assert list(anatomy.gather(both[:1])) == ["block.up"]


def test_running_statistics_are_not_meant_to_be_trained():
    anatomy = Anatomy(Structure())
    assert not anatomy.is_trainable(ParameterInfo("bn.moving_mean", (4,), "float32", requires_grad=False))
    assert anatomy.is_trainable(ParameterInfo("bn.gamma", (4,), "float32"))


def test_a_glob_declares_a_whole_module_as_frozen_on_purpose():
    anatomy = Anatomy(MODEL, ("block",))
    assert anatomy.is_expected_frozen("block.up.weight")
    assert not anatomy.is_expected_frozen("head.weight")
