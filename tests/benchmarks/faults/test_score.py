"""How runs are judged against what is true of them."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.faults.outcome import Alarm, Outcome
from benchmarks.faults.score import Share, delays, judge, percentile, warned
from benchmarks.faults.table import Case, Truth


def _leave(_script: object) -> Truth:
    return Truth()


CASE = Case("harmed", "mlp", ("frozen_parameter",), _leave, is_silent=True, summary="")


def _alarm(cause: str = "frozen_parameter", site: str = "fc2.weight", rank: int = 0, step: int = 12) -> Alarm:
    return Alarm(cause.replace("_", "-"), cause, "warning", site, rank, step, step)


def _run(*alarms: Alarm, sites: tuple[str, ...] = ("fc2",), rank: int | None = None) -> Outcome:
    return Outcome("harmed", 1, sites, rank, 10, alarms, alarms[:3])


@given(of=st.integers(1, 500), data=st.data())
def test_the_interval_holds_the_shares_that_a_test_of_5_percent_would_not_refuse(of: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, of))
    low, high = Share(hits, of).interval
    assert 0.0 <= low <= hits / of <= high <= 1.0
    for end in (low, high):
        if 0.0 < end < 1.0:  # Wilson's ends are where the score statistic is just the quantile
            assert abs(hits / of - end) / sqrt(end * (1.0 - end) / of) == pytest.approx(1.959964, rel=1e-6)


def test_no_hit_in_ten_leaves_room_for_more_than_a_quarter() -> None:
    assert Share(0, 10).interval == pytest.approx((0.0, 0.27753), abs=1e-5)


def test_a_finding_at_a_parameter_of_the_module_at_fault_is_placed_and_one_beside_it_is_not() -> None:
    assert judge(CASE, _run(_alarm()), None).is_placed
    assert judge(CASE, _run(_alarm(site="fc2")), None).is_placed
    assert judge(CASE, _run(_alarm(site="fc21")), None).is_placed is False
    assert judge(CASE, _run(), None).is_placed is False
    assert judge(CASE, _run(_alarm(), sites=()), None).is_placed is None


def test_the_rank_must_be_right_where_one_is_at_fault() -> None:
    assert judge(CASE, _run(_alarm(rank=1), rank=1), None).is_placed
    assert judge(CASE, _run(_alarm(rank=0), rank=1), None).is_placed is False


def test_what_the_healthy_twin_says_too_is_no_detection() -> None:
    judged = judge(CASE, _run(_alarm()), _run(_alarm()))
    assert judged.is_seen
    assert not judged.is_new
    assert judged.delay is None


def test_an_alarm_before_the_onset_is_no_detection_either() -> None:
    judged = judge(CASE, _run(_alarm(step=9)), None)
    assert not judged.is_seen
    assert not judged.is_new


def test_the_delay_counts_from_the_onset_to_the_first_new_alarm() -> None:
    judged = judge(CASE, _run(_alarm("plateau", step=11), _alarm(step=15)), _run(_alarm("plateau", step=11)))
    assert judged.delay == 5
    assert delays([judged]) == [5]


def test_the_cause_counts_as_near_among_the_first_three() -> None:
    judged = judge(CASE, _run(_alarm("plateau"), _alarm()), None)
    assert not judged.is_named
    assert judged.is_near


@pytest.mark.parametrize(("part", "expected"), [(0.5, 3.0), (0.9, 5.0), (0.2, 1.0)])
def test_a_percentile_is_one_of_the_values(part: float, expected: float) -> None:
    assert percentile([1, 2, 3, 4, 5], part) == expected


def test_a_healthy_run_with_any_alarm_counts_once() -> None:
    assert warned([_run(), _run(_alarm(), _alarm()), _run()]) == Share(1, 3)


def test_an_outcome_comes_back_from_its_line() -> None:
    outcome = _run(_alarm(), rank=1)
    assert Outcome.from_line(outcome.to_line()) == outcome
