"""The page of the landscape: which surface and which sample are shown, and what is said of them."""

import json

import pytest
from mindscope.dashboard import create_app
from mindscope.dashboard.app import page_at
from mindscope.dashboard.queries.explanation_queries import explanations, surface_holders, surfaces
from mindscope.dashboard.queries.reader import Reader
from mindscope.insight.landscape import write_surface
from mindscope.insight.saliency import write_explanations
from mindscope.storage import open_store

from tests.dashboard.calling import call
from tests.dashboard.explained import surface, write_explained


@pytest.fixture(scope="module")
def store():
    with open_store("memory:") as store:
        write_explained(store)
        store.begin_run("bare").close()
        yield store


@pytest.fixture(scope="module")
def app(store):
    return create_app(store)


def asked(app, store, output, run="explained", **said):
    given = {f"landscape-{name}": said.get(name) for name in ("surface", "sample")}
    given |= {"landscape-height": said.get("height", "log"), "landscape-version": []}
    state = {"landscape-run": store.find_run(run).id, "scheme": "dark"}
    answer = call(app, f"landscape-{output}", given, state)
    assert answer.status_code == 200
    return json.dumps(answer.get_json(), ensure_ascii=False)


def test_the_newest_surface_is_shown_with_its_way_and_its_lowest_point(app, store):
    said = asked(app, store, "body.children")
    for words in ("1.5", "0.5", "at (1, 0), 1 below the weights", "steps 0 to 100", "98%", "the training"):
        assert words in said


def test_another_surface_is_chosen_by_its_key_and_one_that_is_gone_is_told(app, store):
    newest, other = surfaces(Reader(store), store.find_run("explained"))
    assert (newest.surface.kind, other.surface.kind) == ("path", "random")
    said = asked(app, store, "body.children", surface=other.key)
    assert "heights are linear" in said
    assert '"not finite"' in said
    assert "steps 0 to 100" not in said
    assert "no longer exists" in asked(app, store, "body.children", surface="gone")


def test_the_maps_of_a_sample_are_shown_with_what_they_are_worth(app, store):
    said = asked(app, store, "explanations.children", sample="10")
    for words in ("Class 3 has the score", "Faithfulness", "Hits the mark", '"yes"', "4.0%", "Gradient", "Occlusion"):
        assert words in said
    without_marks = asked(app, store, "explanations.children", sample="9")
    assert "Class 1 has the score" in without_marks
    assert "Hits the mark" not in without_marks
    assert "No sample 'x' was explained; sample 9 is shown" in asked(app, store, "explanations.children", sample="x")


def test_samples_are_in_the_order_of_their_numbers_and_the_newest_explanation_counts(store):
    reader, run = Reader(store), store.find_run("explained")
    found = explanations(reader, run)
    assert {sample: [one.method for one in ones] for sample, ones in found.items()} == {
        "9": ["gradient"],
        "10": ["gradient", "occlusion"],
    }
    with open_store("memory:") as fresh:
        write_explained(fresh)
        write_explanations(fresh, [found["10"][0], found["9"][0]], parent="explained")
        assert [len(ones) for ones in explanations(Reader(fresh), fresh.find_run("explained")).values()] == [1, 2]


def test_what_would_make_them_is_told_where_there_are_none(app, store):
    assert "mindscope landscape RUN" in asked(app, store, "body.children", run="bare")
    assert "mindscope explain RUN" in asked(app, store, "explanations.children", run="bare")


def test_a_new_surface_beside_the_run_is_noticed():
    with open_store("memory:") as store:
        run = write_explained(store)
        reader = Reader(store)
        before = surface_holders(reader, run)
        write_surface(store, surface(), parent="explained")
        assert len(surface_holders(Reader(store), run)) == len(before) + 1


def test_two_surfaces_of_one_run_have_keys_of_their_own(store):
    reader = Reader(store)
    for one in surfaces(reader, store.find_run("explained")):
        assert page_at(reader, "/landscape", f"?run=explained&surface={one.key}")[0] == 200
        assert len(f"/landscape?run=explained&surface={one.key}&height=linear&sample=10") < 300
