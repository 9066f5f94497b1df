"""The changed programs can be made, have causes that the vocabulary knows, and are counted set by set."""

import ast
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.insight.compare.changed_program import named_change

from benchmarks.changes.__main__ import all_changes, judged

CHANGES = list(all_changes())
WORDS = Path(__file__).parents[3].joinpath("docs", "causes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("change", CHANGES, ids=[f"{change.group}: {change.title}" for change in CHANGES])
def test_a_change_can_be_made_and_its_cause_is_a_word(change):
    ast.parse(change.good)
    ast.parse(change.other)
    assert change.good != change.other
    assert f"| `{change.cause}` |" in WORDS


def test_there_are_enough_of_each_set_and_of_many_causes():
    counts = Counter(change.group for change in CHANGES)
    assert counts == {"first set": 100, "second set": 80, "strangers": counts["strangers"]}
    assert counts["strangers"] >= 240
    assert len({change.cause for change in CHANGES}) >= 50


def test_a_rate_counts_what_is_named_and_the_rest_is_listed():
    document = judged("second set")
    of_set = [change for change in CHANGES if change.group == "second set"]
    right = [named_change({"": change.good}, {"": change.other}) == change.cause for change in of_set]
    named, other = document["results"]
    assert named["value"] == pytest.approx(100.0 * sum(right) / len(of_set), abs=1e-4)
    assert named["value"] + other["value"] <= 100.0
    assert len(document["misnamed"]) == len(of_set) - sum(right)


@pytest.mark.parametrize("change", CHANGES[::5], ids=[change.title for change in CHANGES[::5]])
def test_a_program_that_was_not_changed_speaks_of_nothing(change):
    assert named_change({"": change.good}, {"": change.good}) == ""
