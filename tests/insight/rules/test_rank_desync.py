"""A finding about ranks names the one that differs, and of two that nothing tells apart both."""

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.storage import Event

MODEL = chain("one:Dense", "two:Dense", "three:Dense", "four:Dense")
SITES = [item.site for item in MODEL.parameters]


def differs(*by_rank, odd=(), wrote=(), sites=SITES, **more):
    data = {"quantity": "parameters", "at": 10, "by_rank": list(by_rank), "is_equal": False, "wrote": list(wrote)}
    return Event("rank_checksums", 0, data=data | {"odd": list(odd), "sites": sites} | more)


def reduced(*weights, elsewhere=(), **more):
    data = {"at": 0, "weights": list(weights), "residual": 1e-6, "ranks": len(weights), "sites": []}
    return Event("rank_reduction", 0, data=data | {"weights_elsewhere": list(elsewhere)} | more)


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


def test_of_several_ranks_that_differ_the_one_that_has_skipped_a_step_is_blamed():
    finding = found(differs("a", "b", "a", "c", odd=(1, 3), forwards=[25, 25, 25, 26]))
    assert finding.rank == 3
    assert "ranks 1, 3 differ, and rank 3 has made more forwards" in finding.explanation


def test_of_two_ranks_the_one_whose_gradient_does_not_follow_is_blamed():
    finding = found(reduced(0.5, 0.5, residuals=[1e-6, 0.4]), differs("a", "b"))
    assert (finding.rank, "gradient of rank 1 does not follow" in finding.explanation) == (1, True)


def test_of_two_ranks_the_one_whose_weights_stand_still_is_blamed():
    still = Event("rank_still", 0, data={"at": 9, "rank": 1, "sites": SITES[:1], "steps": 9})
    assert found(still, differs("a", "b")).rank == 1


def test_replicas_of_a_part_are_named_by_their_own_numbers():
    finding = found(differs(None, "a", None, "b"))
    assert "ranks 1 and 3 differ from each other" in finding.explanation


def test_why_ranks_differ_is_told():
    assert "different settings" in found(differs("a", "b", same_settings=False)).explanation
    assert "a sum over them is missing" in found(differs("a", "b", quantity="gradients", same_batch=True)).explanation


def test_weights_that_differ_explain_gradients_that_do():
    events = (differs("a", "b", quantity="gradients"), differs("a", "b"))
    engine = Engine({"rank-desync": RULES["rank-desync"]})
    engine.learn_structure(MODEL)
    for record in Recording(structure=MODEL, events=events[::-1], steps=1).records():
        engine.observe(record)
    assert len(engine.findings) == 1
