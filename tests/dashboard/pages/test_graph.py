"""What the page of the graph says about a module, and about the model as a whole."""

import pytest
from mindscope.dashboard.address import PageAddress
from mindscope.dashboard.pages.graph.graph_page import layout, module_panel
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store

from tests.dashboard.recorded import BAD_SITE, Plan, write_run


@pytest.fixture(scope="module")
def reader():
    with open_store("memory:") as store:
        write_run(store, "faulty", Plan(steps=200))
        yield Reader(store)


def _text(parts) -> str:
    return "\n".join(str(part) for part in parts)


def test_without_a_module_the_findings_about_the_whole_model_are_told(reader):
    said = _text(module_panel(reader, reader.find("faulty"), None, "activation/l2_norm", 190))
    assert "About the whole model" in said
    assert "Non-finite loss" in said
    assert "Non-finite activation" not in said


def test_a_module_says_what_it_takes_and_what_was_found_there(reader):
    said = _text(module_panel(reader, reader.find("faulty"), BAD_SITE, "activation/l2_norm", 190))
    assert "decoder.2.mlp.up" in said
    assert "Non-finite activation" in said


@pytest.mark.parametrize(
    ("site", "chosen"), [("decoder.1.mlp.up.weight", "decoder.1.mlp.up"), ("head", "head"), ("nowhere", "nowhere")]
)
def test_a_parameter_leads_to_the_module_that_holds_it(reader, site, chosen):
    page = layout(reader, PageAddress("graph", run="faulty", metric="gradient/l2_norm", site=site))
    (select,) = [part for part in page._traverse() if getattr(part, "id", None) == "graph-site"]
    assert select.value == chosen
