"""The page of one run as it is laid out."""

from contextvars import copy_context

import pytest
from dash import dcc
from mindscope.dashboard.address import PageAddress
from mindscope.dashboard.pages.live_run import live_run_page as page
from mindscope.dashboard.pages.live_run.live_run_panels import LiveRunIds
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.theme import DARK, LIGHT, SCHEME_SHOWN
from mindscope.storage import open_store


def _laid_out(reader, address, scheme):
    context = copy_context()
    context.run(SCHEME_SHOWN.set, scheme)
    content = context.run(page.layout, reader, address)
    return next(one for one in content._traverse() if isinstance(one, dcc.Graph) and one.id == LiveRunIds.curve)


@pytest.mark.parametrize(("scheme", "palette"), [("light", LIGHT), ("dark", DARK), (None, LIGHT)])
def test_the_curve_is_there_with_the_page_in_its_colours(reader, bad_run, scheme, palette):
    figure = _laid_out(reader, PageAddress("run", bad_run.id), scheme).figure
    assert figure.data[0].name == "loss linear"
    assert len(figure.data[0].x) > 200
    assert figure.data[0].line.color == palette.lines[0]


def test_the_curve_is_the_one_that_the_address_names(reader, bad_run):
    address = PageAddress("run", bad_run.id, options={"scalar": "learning_rate", "scale": "log", "steps": "20-40"})
    figure = _laid_out(reader, address, "light").figure
    assert figure.layout.yaxis.type == "log"
    assert (figure.data[0].x[0], figure.data[0].x[-1]) == (20, 40)


@pytest.mark.parametrize("is_over", [True, False], ids=["over", "written"])
def test_only_a_run_that_goes_on_can_be_followed(is_over):
    with open_store("memory:") as store:
        writer = store.begin_run("one")
        if is_over:
            writer.close()
        layout = page.layout(Reader(store), PageAddress("run", writer.run.id))
        (follow,) = [one for one in layout._traverse() if getattr(one, "id", None) == LiveRunIds.follow]
        assert (follow.style == {"display": "none"}) == is_over
        writer.close()
