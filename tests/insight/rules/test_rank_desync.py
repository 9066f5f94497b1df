"""A finding about ranks names the one that differs, and of two that nothing tells apart both."""

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.storage import Event

MODEL = chain("one:Dense", "two:Dense", "three:Dense", "four:Dense")
SITES = [item.site for item in MODEL.parameters]


def differs(*by_rank, odd=(), wrote=(), sites=SITES):
    data = {"quantity": "parameters", "at": 10, "by_rank": list(by_rank), "is_equal": False, "wrote": list(wrote)}
    return Event("rank_checksums", 0, data=data | {"odd": list(odd), "sites": sites})


def reduced(*weights, elsewhere):
    data = {"at": 0, "weights": list(weights), "residual": 1e-6, "ranks": len(weights), "sites": []}
    return Event("rank_reduction", 0, data=data | {"weights_elsewhere": list(elsewhere)})


def found(*events, rule="rank-desync"):
    engine = Engine({rule: RULES[rule]})
    engine.learn_structure(MODEL)
    for record in Recording(structure=MODEL, events=events, steps=1).records():
        engine.observe(record)
    return engine.findings[0]


def test_the_majority_tells_which_of_three_ranks_differs():
    finding = found(differs("a", "a", "b", odd=(2,)))
    assert (finding.rank, "rank 2 differs" in finding.explanation) == (2, True)


def test_of_two_ranks_the_one_that_applies_its_own_gradient_alone_is_named():
    finding = found(reduced(0.5, 0.5, elsewhere=(None, [0.0, 1.0])), differs("a", "b"))
    assert finding.rank == 1
    assert "rank 1 applies its own gradient alone" in finding.explanation


@pytest.mark.parametrize(
    ("rule", "sites"), [("rank-desync", SITES), ("silent-data-corruption", SITES[:1])], ids=["all", "one tensor"]
)
@pytest.mark.parametrize(
    ("wrote", "rank"), [((0, 4), 1), ((4, 0), 0), ((4, 4), None), ((0, 0), None), ((0, None), None)]
)
def test_of_two_ranks_both_are_named_and_the_one_whose_weights_were_written_is_blamed(rule, sites, wrote, rank):
    finding = found(differs("a", "b", wrote=wrote, sites=sites), rule=rule)
    assert "ranks 0 and 1" in finding.explanation
    assert ("nothing tells which of them is right" in finding.explanation) is (rank is None)
    assert ("no optimizer step wrote to" in finding.explanation) is (rank is not None)
    assert finding.rank == (rank or 0)


def test_the_majority_counts_more_than_who_was_seen_to_write():
    assert found(differs("a", "a", "b", odd=(2,), wrote=(0, 4, 0))).rank == 2


def test_of_two_ranks_that_nothing_tells_apart_both_are_named():
    words = "ranks 0 and 1 differ from each other, and nothing tells which of them is right"
    assert words in found(differs("a", "b")).explanation


def test_where_neither_of_two_ranks_reduces_none_is_blamed_alone():
    finding = found(reduced(1.0, 0.0, elsewhere=(None, [0.0, 1.0])), differs("a", "b"))
    assert "rank 1 applies" not in finding.explanation
