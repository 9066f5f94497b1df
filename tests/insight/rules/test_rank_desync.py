"""A finding about ranks names the one that differs, and of two that nothing tells apart both."""

from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.storage import Event

MODEL = chain("one:Dense", "two:Dense", "three:Dense", "four:Dense")
SITES = [item.site for item in MODEL.parameters]


def differs(*by_rank, odd=()):
    data = {"quantity": "parameters", "at": 10, "by_rank": list(by_rank), "is_equal": False}
    return Event("rank_checksums", 0, data=data | {"odd": list(odd), "sites": SITES})


def reduced(*weights, elsewhere):
    data = {"at": 0, "weights": list(weights), "residual": 1e-6, "ranks": len(weights), "sites": []}
    return Event("rank_reduction", 0, data=data | {"weights_elsewhere": list(elsewhere)})


def found(*events):
    engine = Engine({"rank-desync": RULES["rank-desync"]})
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


def test_of_two_ranks_that_nothing_tells_apart_both_are_named():
    words = "ranks 0 and 1 differ from each other, and nothing tells which of them is right"
    assert words in found(differs("a", "b")).explanation


def test_where_neither_of_two_ranks_reduces_none_is_blamed_alone():
    finding = found(reduced(1.0, 0.0, elsewhere=(None, [0.0, 1.0])), differs("a", "b"))
    assert "rank 1 applies" not in finding.explanation
