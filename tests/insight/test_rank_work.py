"""Who works and who waits, wherever the waiting happens; the profile and the rule say the same."""

import numpy as np
import pytest
from mindscope.insight.profile.step_split import StepSplit, rank_times
from mindscope.insight.rank_times import slowest_of
from mindscope.insight.rank_work import rank_work
from mindscope.storage import Event

#: (data, forward, backward, optimizer, recorded communication) of a slow rank and of one that waits for it.
CASES = {
    "slow behind the backward pass, waits in a recorded collective before the forward": (
        (15, 2, 4, 60, 1),
        (74, 2, 4, 1, 62),
    ),
    "late data, waits in the backward pass": ((40, 10, 20, 5, 0), (10, 10, 50, 5, 0)),
    "late data, waits in the forward": ((40, 10, 20, 5, 0), (10, 40, 20, 5, 0)),
    "slow forward, and a small collective beside": ((5, 50, 20, 5, 1), (5, 10, 60, 5, 1)),
    "slow forward, waits in a recorded collective of it": ((5, 50, 20, 5, 1), (5, 50, 20, 5, 41)),
    "slow forward, waits in recorded collectives of the backward pass": ((5, 50, 20, 5, 1), (5, 10, 60, 5, 41)),
    "slow backward pass, waits in a recorded collective behind it": ((5, 10, 60, 5, 1), (5, 10, 20, 45, 41)),
}


@pytest.mark.parametrize("times", CASES.values(), ids=CASES)
@pytest.mark.parametrize("slow", [0, 1])
def test_the_profile_and_the_rule_name_the_rank_that_works_longer(times, slow):
    by_rank = [times[0 if rank == slow else 1] for rank in (0, 1)]
    names = ("data", "forward", "backward", "optimizer")
    seconds = [dict(zip((*names, "communication"), (value / 1000 for value in row), strict=True)) for row in by_rank]
    splits = [
        StepSplit(rank, 50, 0.1, 0.1, (), {name: row[name] for name in names}, {"communication": row["communication"]})
        for rank, row in enumerate(seconds)
    ]
    assert rank_times(splits, ())[0].rank == slow
    data = {name: [row[name] for row in seconds] for name in seconds[0]}
    rank, excess_s, _ = slowest_of(Event("rank_times", 10, data={"at": 10, **data}))
    assert (rank, excess_s) == (slow, pytest.approx(rank_times(splits, ())[0].own_s - rank_times(splits, ())[1].own_s))
    assert excess_s >= 0.029


def test_work_is_never_negative_and_phases_that_end_apart_hide_no_waiting():
    found = rank_work({"data": np.array([0.0, 0.0]), "forward": np.array([0.1, 0.3])}, np.array([0.5, 0.0]))
    assert found.own_s.tolist() == [0.0, pytest.approx(0.3)]
    assert found.waits_s.tolist() == [0.0, 0.0]


def test_who_evaluates_between_steps_works_and_the_others_wait_in_their_backward_passes():
    phases = {
        "data": (10, 10),
        "evaluation": (1400, 0),
        "forward": (10, 10),
        "backward": (20, 1420),
        "optimizer": (1, 1),
    }
    rank, excess_s, step_s = slowest_of(Event("rank_times", 10, data={"at": 10, **phases}))
    assert (rank, excess_s, step_s) == (0, 1400.0, 1441.0)
