"""The same figures in a notebook."""

import pytest
from mindscope.dashboard.export import view_run
from mindscope.dashboard.theme import DARK
from mindscope.storage import RunNotFound, open_store

from tests.dashboard.recorded import BAD_SITE, Plan, write_run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("store") / "runs")
    with open_store(folder) as store:
        write_run(store, "gpt-nan", Plan(steps=200))
    return folder


def test_the_view_says_what_is_wrong(place):
    with view_run("gpt-nan", place) as view:
        said = view._repr_html_()
    assert BAD_SITE in said
    assert "Non-finite activation" in said
    assert "since step 180" in said


def test_the_figures_are_those_of_the_pages_on_a_surface_of_their_own(place):
    with view_run("latest", place, scheme="dark") as view:
        figures = [
            view.curve(),
            view.heat(),
            view.heat("activation/l2_norm", view="raw"),
            view.tensor(BAD_SITE, "activation/l2_norm", axis="time"),
            view.model(),
            view.model(shape="tree", color="value", metric="activation/l2_norm", step=100),
        ]
    assert all(figure.data for figure in figures)
    assert {figure.layout.paper_bgcolor for figure in figures} == {DARK.surface}
    assert figures[1].data[0].meta == {"metric": "activation/l2_norm"}


def test_an_unknown_name_is_told_with_the_nearest(place):
    with view_run("latest", place) as view:
        with pytest.raises(ValueError, match="no scalar 'los'; did you mean 'loss'"):
            view.curve("los")
        with pytest.raises(ValueError, match="did you mean 'activation/l2_norm'"):
            view.heat("activation/l2_nrm")
        with pytest.raises(ValueError, match=r"no site 'decoder\.9'"):
            view.tensor("decoder.9", "activation/l2_norm")
    with pytest.raises(RunNotFound):
        view_run("nobody", place)


def test_the_view_saves_the_report(place, tmp_path):
    with view_run("latest", place) as view:
        path = view.save(tmp_path)
        assert path.name == f"{view.run.id}.html"
        assert BAD_SITE in path.read_text(encoding="utf-8")
