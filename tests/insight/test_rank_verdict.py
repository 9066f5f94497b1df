"""Who holds up the others, since when and what it costs."""

import numpy as np
import pytest
from mindscope.cli import main
from mindscope.insight.rank_times import WAIT, WORK, WorkHistory, with_work, work_history
from mindscope.insight.rank_verdict import duration_words, rank_verdict, straggler
from mindscope.insight.rank_work import rank_work
from mindscope.storage import Event, Finding, open_store
from mindscope.storage.ranks.rank_stack import RankStack
from mindscope.storage.ranks.topology import Topology, topology_of_mesh

from tests.dashboard.ranked import SLOW, STEPS, write_ranks

HERE = topology_of_mesh([f"node-{rank // 4}" for rank in range(8)], {})


def history(slow, *, steps=400, rank=5, excess=0.3, stride=1):
    """A run of steps of a second in which a rank works longer where it is slow; chance names another otherwise."""
    is_slow = np.broadcast_to(slow, steps)
    random = np.random.default_rng(0)
    who = np.where(is_slow, rank, random.integers(0, 8, steps))
    longest = np.where(is_slow, 0.5 + excess, 0.51)
    return WorkHistory(np.arange(steps) * stride, who, longest, np.full(steps, 0.5), np.full(steps, 1.0 - 0.2), 8)


def test_a_rank_that_became_slow_is_named_with_since_when_and_the_cost():
    found = straggler(history(np.arange(400) >= 250), HERE, ranks=8)
    assert (found.rank, found.since, found.until, found.tone) == (5, 250, 399, "watch")
    assert found.cost_s == pytest.approx(150 * 0.3)
    assert found.sentence == (
        "Rank 5 (host node-1) holds up the others since step 250: it needs 300 ms a step more than the others for its "
        "own work (38% of a step), which has cost every other rank 45 s"
    )


def test_one_slow_step_long_before_does_not_move_the_beginning():
    slow = np.arange(400) >= 250
    slow[3] = True
    assert straggler(history(slow), HERE, ranks=8).since == 250


def test_steps_between_exchanges_cost_as_well():
    found = straggler(history(np.arange(400) >= 250, stride=10), HERE, ranks=8)
    assert (found.since, found.cost_s) == (2500, pytest.approx(1500 * 0.3))


def test_what_is_over_is_told_in_the_past():
    found = straggler(history((np.arange(400) >= 100) & (np.arange(400) < 200)), HERE, ranks=8)
    assert (found.since, found.until) == (100, 199)
    assert "held up the others from step 100 to step 199" in found.sentence


def test_bursts_are_told_with_their_share():
    found = straggler(history(np.arange(400) % 4 == 0), HERE, ranks=8)
    assert "since step 0 in 25% of the steps" in found.sentence


@pytest.mark.parametrize("excess", [0.02, 0.2])
def test_a_rank_that_is_hardly_slower_holds_up_nobody(excess):
    found = straggler(history(True, excess=excess), HERE, ranks=8)
    assert (found.rank, found.tone) == (None, "good")
    assert "No rank holds up the others" in found.sentence
    assert "rank 5 (host node-1)" in found.sentence


def test_two_slow_steps_are_chance():
    slow = np.zeros(400, np.bool_)
    slow[[20, 300]] = True
    assert straggler(history(slow), HERE, ranks=8).rank is None


def test_what_was_not_recorded_is_told():
    assert "was not recorded" in straggler(None, HERE, ranks=8).sentence
    assert "one rank" in straggler(None, Topology(1), ranks=1).sentence


def test_work_of_all_ranks_is_that_of_the_one_answer():
    """The roll-up has the same work as rules and profile."""
    random = np.random.default_rng(3)
    times = {name: random.uniform(0.1, 0.2, 6) for name in ("data", "forward", "backward", "optimizer")}
    times["backward"] += (times["data"] + times["forward"]).max() - times["data"] - times["forward"]
    waits = random.uniform(0.0, 0.05, 6)
    scalars = {f"time/{name}_seconds": seconds for name, seconds in times.items()}
    scalars["time/communication_seconds"] = waits
    found = with_work(RankStack(0, 0.0, np.arange(6), scalars=scalars)).scalars
    expected = rank_work(times, waits)
    np.testing.assert_allclose(found[WORK], expected.own_s)
    np.testing.assert_allclose(found[WAIT], expected.waits_s + waits)


def test_recorded_waits_name_the_rank_that_waits_least():
    with open_store("memory:") as store:
        run = write_ranks(store)
        found = rank_verdict(store, run)
        assert (found.rank, found.since) == (SLOW, 0)
        assert found.cost_s == pytest.approx(STEPS * 0.18)


def test_what_ranks_told_each_other_is_enough():
    with open_store("memory:") as store:
        writer = store.begin_run("told", run_id="told")
        times = {name: [0.01] * 3 for name in ("data", "backward", "optimizer")}
        for step in range(0, 100, 10):
            forward = [0.01, 0.05 if step >= 40 else 0.01, 0.01]
            writer.write_events([Event("rank_times", step, data={"at": step, **times, "forward": forward})])
        for rank in (1, 2):
            store.begin_run("told", run_id="told", rank=rank)
        run = store.find_run("told")
        assert work_history(store, run).ranks == 3
        found = rank_verdict(store, run)
        assert (found.rank, found.since) == (1, 40)
        assert found.cost_s == pytest.approx(60 * 0.04)


def test_a_wrong_rank_comes_before_a_slow_one():
    with open_store("memory:") as store:
        run = write_ranks(store)
        words = "rank 1 has other weights than the others"
        wrong = Finding("rank-desync", "rank_desync", "error", 20, 12, "one", "", {}, words, "look", rank=1)
        store.write_findings(run.id, [wrong])
        found = rank_verdict(store, store.find_run(run.id))
        assert (found.rank, found.since, found.tone) == (1, 12, "bad")
        assert found.sentence == "Rank 1 has other weights than the others, since step 12"
        assert f"Rank {SLOW} holds up the others" in found.further[0]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.012, "12 ms"), (3.44, "3.44 s"), (1254.0, "20.9 min"), (18720, "5.2 h")]
)
def test_durations_are_said_as_people_say_them(seconds, words):
    assert duration_words(seconds) == words


def test_the_command_says_what_the_page_says(tmp_path, capsys):
    with open_store(tmp_path) as store:
        run = write_ranks(store)
        sentence = rank_verdict(store, run).sentence
    assert main(["ranks", "four-ranks", "--store", str(tmp_path)]) == 0
    assert f"{sentence}." in capsys.readouterr().out
    assert main(["rollup", "four-ranks", "--store", str(tmp_path), "--follow"]) == 0  # it has ended
    assert "steps 0 to 39 of 4 ranks rolled up" in capsys.readouterr().out
    assert main(["ranks", "four-ranks", "--store", str(tmp_path), "--json"]) == 0
    assert '"rank": 2' in capsys.readouterr().out
