"""What stands around a tensor in the model."""

import pytest
from mindscope.dashboard.queries.model_queries import Neighbours, neighbours
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import ModuleInfo, ParameterInfo, Structure, open_store

STRUCTURE = Structure(
    modules=(
        ModuleInfo("", "Net", 3, is_leaf=False),
        ModuleInfo("block", "Block", 2, is_leaf=False),
        ModuleInfo("block.up", "Dense", 0),
        ModuleInfo("block.act", "ReLU", 1, inputs=("block.up",)),
    ),
    parameters=(ParameterInfo("block.up.weight", (2, 2), "float32"),),
)


@pytest.fixture(scope="module")
def around():
    with open_store("memory:") as store:
        writer = store.begin_run("run")
        writer.write_structure(STRUCTURE)
        reader = Reader(store)
        yield lambda site: neighbours(reader, writer.run.id, site)


def test_data_flows_from_and_to_and_modules_hold_and_are_held(around):
    assert around("block.up") == Neighbours((), ("block.act",), ("block.up.weight",), "block")
    assert around("block.act") == Neighbours(("block.up",), (), (), "block")
    assert around("block") == Neighbours((), (), ("block.up", "block.act"), "")


def test_a_parameter_is_held_by_its_module_and_the_model_by_nothing(around):
    assert around("block.up.weight").around == "block.up"
    assert around("") == Neighbours((), (), ("block",), None)


def test_an_unknown_site_has_no_neighbours(around):
    assert around("nowhere") == Neighbours()
