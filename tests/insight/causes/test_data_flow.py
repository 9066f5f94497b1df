"""The data flow among modules: who leads to whom."""

from dataclasses import replace

import pytest
from mindscope.insight.recording import chain
from mindscope.insight.root_causes import DataFlow
from mindscope.storage import ModuleInfo, Structure

#: One stem, two branches, and a head that takes both.
FORK = Structure(
    modules=(
        ModuleInfo("stem", "Dense", 0),
        ModuleInfo("left", "Block", 3, ("stem",), is_leaf=False),
        ModuleInfo("left.one", "Dense", 1, ("stem",)),
        ModuleInfo("left.two", "ReLU", 2, ("left.one",)),
        ModuleInfo("right", "Dense", 4, ("stem",)),
        ModuleInfo("head", "Dense", 5, ("left.two", "right")),
        ModuleInfo("", "Network", 6, is_leaf=False),
    )
)


@pytest.mark.parametrize(
    ("site", "other", "leads"),
    [
        ("stem", "head", True),
        ("stem.weight", "left.two", True),
        ("left", "head.weight", True),
        ("head", "stem", False),
        ("left.one", "right", False),
        ("left", "left.two", False),
        ("stem", "stem", False),
        ("", "head", False),
        ("stem", "", False),
        ("never.called", "head", False),
    ],
)
def test_values_flow_one_way(site: str, other: str, leads: bool) -> None:
    assert DataFlow(FORK).leads_to(site, other) is leads


def test_modules_that_feed_each_other_lead_nowhere() -> None:
    loop = chain("one:Dense", "two:Dense")
    first, second, *rest = loop.modules
    loop = replace(loop, modules=(replace(first, inputs=("two",)), second, *rest))
    assert not DataFlow(loop).leads_to("one", "two")


def test_without_inputs_nothing_leads_anywhere() -> None:
    assert not DataFlow(Structure()).leads_to("one", "two")
