"""A run of which only a later rank has recorded, so far or for good, hides no other run, and says which rank it has."""

import pytest
from mindscope.dashboard.app import page_at
from mindscope.dashboard.pages import PAGES
from mindscope.dashboard.queries.reader import Reader
from mindscope.insight import diagnose, stored_facts
from mindscope.storage import open_store

from .recorded import Plan, records, structure_of


@pytest.fixture(scope="module")
def store():
    with open_store("memory:") as store:
        plan = Plan(steps=40)
        writer = store.begin_run("alone", framework="pytorch", run_id="alone", rank=2)
        writer.write_structure(structure_of(plan))
        writer.write(list(records(plan)), ())
        writer.close("finished")
        yield store


def test_the_list_of_runs_has_it(store):
    status, _, content = page_at(Reader(store), "/", "")
    assert status == 200
    assert "alone" in str(content)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_it_or_says_that_there_is_no_such_run(store, page):
    status, _, content = page_at(Reader(store), f"/{page}", "?run=alone")
    assert status in (200, 404)
    assert content is not None


def test_its_facts_are_those_of_the_rank_that_there_is(store):
    assert stored_facts(store, "alone").seen["scalar/loss"] == 40
    assert diagnose(store, "alone").ranks == (2,)
