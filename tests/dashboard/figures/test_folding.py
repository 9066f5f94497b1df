"""Modules folded into boxes, and the layers of the data flow."""

from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.pages.graph.module_graph_figure import flow_of, parents_of
from mindscope.storage import ModuleInfo


def chain(blocks: int) -> tuple[ModuleInfo, ...]:
    """Blocks of two layers and their sum, as a residual network has them."""
    found, order, before = [], 0, "embed"
    found.append(ModuleInfo("embed", "Embedding", order))
    for block in range(blocks):
        name = f"block.{block}"
        for part, inputs in (("up", (before,)), ("down", (f"{name}.up",)), ("norm", (f"{name}.down", before))):
            order += 1
            found.append(ModuleInfo(f"{name}.{part}", "Dense", order, inputs))
        before = f"{name}.norm"
        found.append(ModuleInfo(name, "Block", order, is_leaf=False))
    found += [ModuleInfo("block", "Sequential", is_leaf=False), ModuleInfo("", "Model", order + 1, is_leaf=False)]
    return tuple(found)


def test_a_small_model_is_open_to_its_last_layer():
    flow = flow_of(chain(2))
    assert [box.site for box in flow.boxes] == [
        "embed",
        *(f"block.{at}.{part}" for at in range(2) for part in ("up", "down", "norm")),
    ]
    assert not any(box.is_closed for box in flow.boxes)


def test_a_large_model_is_folded_and_opens_around_what_is_chosen():
    folded = flow_of(chain(30))
    assert [box.site for box in folded.boxes] == ["embed", *(f"block.{at}" for at in range(30))]
    assert folded.boxes[7].members == ("block.6", "block.6.up", "block.6.down", "block.6.norm")
    opened = {box.site for box in flow_of(chain(30), "block.6.down").boxes}
    assert {"block.6.up", "block.6.down", "block.6.norm", "block.5"} <= opened
    assert "block.6" not in opened


def test_folded_boxes_keep_the_flow_between_their_parts():
    flow = flow_of(chain(30))
    names = [box.site for box in flow.boxes]
    pairs = {(names[a], names[b]) for a, b in flow.edges}
    assert pairs == {("embed", "block.0"), *((f"block.{at}", f"block.{at + 1}") for at in range(29))}


@given(st.lists(st.lists(st.integers(0, 30), max_size=3), min_size=1, max_size=30))
def test_every_box_stands_below_all_that_it_takes_data_from(inputs):
    infos = [
        ModuleInfo(f"m{at}", "Dense", at, tuple(f"m{source}" for source in sources))
        for at, sources in enumerate(inputs)
    ]
    flow = flow_of(infos)
    assert len(flow.boxes) == len(infos)
    assert len({(box.layer, box.position) for box in flow.boxes}) == len(infos)
    for a, b in flow.edges:
        assert a > b or flow.boxes[a].layer < flow.boxes[b].layer


def test_a_module_stands_in_the_nearest_that_is_known():
    assert parents_of(["", "a", "a.0.b", "c.d"]) == {"": None, "a": "", "a.0.b": "a", "c.d": ""}
