"""The page of two runs: its words for what was found, and for what cannot be compared."""

import json
import math

import pytest
from mindscope.dashboard.app import page_at
from mindscope.dashboard.pages.compare_page import differences_table, pair_of, tolerance_of, verdict_cards
from mindscope.dashboard.queries.comparison_queries import comparison
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store

from tests.dashboard.recorded import Plan, write_run


def words(component) -> str:
    return json.dumps(component, default=lambda part: getattr(part, "to_plotly_json", str)(), ensure_ascii=False)


def test_the_cards_say_where_two_runs_part(recorded_store):
    reader = Reader(recorded_store)
    bad, healthy = recorded_store.find_run("gpt-nan"), recorded_store.find_run("gpt-healthy")
    found = comparison(reader, bad, healthy)
    said = words(verdict_cards(bad, found))
    assert "Different from the start" in said
    assert "/tensor?run=" in said or "/run?run=" in said
    assert "layers" not in words(differences_table(found.differences, bad, healthy))


def test_equal_runs_are_said_to_be_equal(recorded_store):
    reader, run = Reader(recorded_store), recorded_store.find_run("gpt-nan")
    found = comparison(reader, run, run)
    assert "Identical" in words(verdict_cards(run, found))
    assert "are the same" in words(differences_table(found.differences, run, run))


def test_runs_of_equal_values_that_differ_in_steps_are_not_called_identical():
    with open_store("memory:") as store:
        long, short = (write_run(store, name, Plan(steps, goes_bad=False)) for name, steps in (("a", 9), ("b", 5)))
        found = comparison(Reader(store), long, short)
    said = words(verdict_cards(long, found))
    assert "Identical" not in said
    assert "Equal where both recorded" in said
    assert "4 steps are in the first run alone, 0 in the second" in said


def test_the_partner_that_is_proposed_has_the_same_model():
    with open_store("memory:") as store:
        for name, layers in (("like", 2), ("other", 3), ("new", 2)):
            write_run(store, name, Plan(steps=2, layers=layers, goes_bad=False))
        reader = Reader(store)
        assert pair_of(reader, reader.find("new"), None).second.name == "like"
        assert pair_of(reader, reader.find("like"), None).second.name == "new"
        assert pair_of(reader, reader.find("other"), None).second.name == "like"  # no other has its model


def test_a_run_that_is_alone_and_a_partner_that_is_unknown_are_told():
    with open_store("memory:") as store:
        write_run(store, "alone", Plan(steps=3, goes_bad=False))
        reader = Reader(store)
        status, _, content = page_at(reader, "/compare", "?run=alone")
        assert (status, "Nothing to compare with" in words(content)) == (200, True)
        status, _, content = page_at(reader, "/compare", "?run=alone&with=alonne")
        assert (status, "No such run to compare with" in words(content)) == (200, True)
        assert page_at(reader, "/compare", "?run=alone&tolerance=-1")[0] == 400


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 1e-3), ("0.5", 0.5), ("", 0.0), (None, 0.0), ("x", 0.0), ("nan", 0.0), ("-1", 0.0)]
)
def test_what_is_no_tolerance_is_none(text, value):
    assert tolerance_of(text) == value
    assert math.isfinite(tolerance_of(text))
