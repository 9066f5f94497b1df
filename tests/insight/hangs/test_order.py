"""The first call in which ranks differ is found, and who differs."""

from collections.abc import Sequence

import pytest
from mindscope.insight.hangs.order import first_difference
from mindscope.storage.last_words import CollectiveCall

from .words import call, calls


def sequences(*ranks: Sequence[CollectiveCall]) -> dict[int, dict[int, CollectiveCall]]:
    return {rank: {one.number: one for one in made} for rank, made in enumerate(ranks)}


def test_ranks_that_call_the_same_do_not_differ() -> None:
    assert first_difference("world", sequences(calls(), calls()), is_hard=False) is None


def test_the_two_ends_of_a_transfer_and_lines_that_always_pair_do_not_differ() -> None:
    sent = [call(at, "send", 30, ended_at=1.0) for at in range(4)]
    received = [call(at, "recv", 40, ended_at=1.0) for at in range(4)]
    assert first_difference("world:0->1", sequences(sent, received), is_hard=False) is None
    root = calls(step=(("broadcast", 10, 4), ("all_reduce", 11, 4)))
    others = calls(step=(("broadcast", 20, 4), ("all_reduce", 11, 4)))
    assert first_difference("world", sequences(root, others), is_hard=False) is None


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ([call(9, line=11, size=8)], "skipped"),
        ([call(9, line=99, size=3, ended_at=1.0), call(10)], "extra"),
        ([call(9, "broadcast", 12, 2, ended_at=1.0), call(10)], "reordered"),
        ([call(9, "broadcast", 99, 4)], "mismatch"),
        ([call(9, size=5)], "shape"),
        ([call(9, dtype="float64")], "dtype"),
        ([call(9, detail="op=max")], "argument"),
        ([call(9, "broadcast", 12, 2)], "order"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_rank_that_differs_from_its_own_habit_is_named(wrong: list[CollectiveCall], kind: str, size: int) -> None:
    right = [*calls(), call(9)]
    ranks = [right] * size
    ranks[1] = [*calls(), *wrong]
    found = first_difference("world", sequences(*ranks), is_hard=True)
    assert found is not None
    assert (found.number, found.ranks, found.kind, found.is_decided) == (9, (1,), kind, True)
    assert found.expected.line == 10
    assert "train.py:" in found.words


def test_a_skip_that_fits_by_chance_is_told_from_the_line() -> None:
    same = (("all_reduce", 10, 4), ("all_reduce", 11, 4))
    right = [*calls(step=same), call(6, ended_at=1.0), call(7, line=11)]
    wrong = [*calls(step=same), call(6, line=11, ended_at=1.0), call(7)]
    found = first_difference("world", sequences(right, wrong), is_hard=False)
    assert found is not None
    assert (found.number, found.ranks, found.kind) == (6, (1,), "reordered")
    assert first_difference("world", sequences(right, wrong), is_hard=True) is None


def test_two_ranks_without_a_history_are_both_named() -> None:
    found = first_difference("world", sequences([call(0, size=3)], [call(0, size=4)]), is_hard=True)
    assert found is not None
    assert found.ranks == (0, 1)
    assert not found.is_decided
