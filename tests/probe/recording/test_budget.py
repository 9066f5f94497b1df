"""The monitor stays below its budget: by the figures it is given, and in a real run by its own."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import SGD
from mindscope.insight.schedule_thinning import thinning_of
from mindscope.probe import ConfigError, load_config, watch
from mindscope.probe.recording.overhead_budget import Budget, BudgetedRecorder, Kind
from mindscope.storage import open_store

PLAIN = 1.0


def run(budget, share, steps, *, scalars=0.0, written=0.0, first=0):
    """The average cost over due steps of which a full record costs `share` of a step, one of scalars `scalars`.

    Args:
        written: What the writer spends on each record, as such a share.
        first: Number of the first due step.
    """
    paid, records, decisions = 0.0, 0, []
    for due in range(first, first + steps):
        kind = budget.kind_of(due)
        cost = {Kind.FULL: share, Kind.SCALARS: scalars, Kind.IDLE: 0.0}[kind]
        records += kind is not Kind.IDLE
        paid += cost + (written if kind is not Kind.IDLE else 0.0)
        budget.note_written(records, records * written)
        decisions.append(budget.note(kind, PLAIN + cost, due))
    return paid / steps, [decision for decision in decisions if decision is not None]


@pytest.mark.parametrize("share", [0.001, 0.02, 0.1, 0.7, 5.0])
@pytest.mark.parametrize("scalars", [0.0, 0.2])
def test_the_average_stays_below_the_budget(share, scalars):
    budget = Budget(0.03)
    run(budget, share, 200, scalars=share * scalars)
    cost, _ = run(budget, share, 4096, scalars=share * scalars, first=200)
    assert cost <= 0.03 * 1.1  # with the steps at which all kinds are compared again
    assert budget.factor == 1 or cost > 0.03 / 4  # and no more is left out than needed


def test_what_the_writer_spends_counts():
    budget = Budget(0.03)
    run(budget, 0.01, 400, written=0.2)
    cost, _ = run(budget, 0.01, 2000, written=0.2, first=400)
    assert cost <= 0.03 * 1.1
    assert budget.factor > 1


def test_scalars_are_kept_where_they_fit():
    cheap, dear = Budget(0.03), Budget(0.03)
    run(cheap, 0.5, 3000, scalars=0.005)
    run(dear, 0.5, 3000, scalars=0.1)
    assert (cheap.keeps_scalars, dear.keeps_scalars) == (True, False)
    assert {cheap.kind_of(due) for due in range(3100, 3400)} == {Kind.FULL, Kind.SCALARS}
    assert {dear.kind_of(due) for due in range(3100, 3400)} == {Kind.FULL, Kind.IDLE}


def test_what_became_cheap_is_recorded_more_often_again():
    budget = Budget(0.03)
    run(budget, 1.0, 2000, scalars=0.1)
    assert budget.factor == 71  # the smallest that leaves half of the budget for idle steps, and a margin
    run(budget, 0.002, 16000, first=2000)
    assert budget.factor == 1


@pytest.mark.parametrize(("factor", "keeps_scalars"), [(1, True), (4, False), (64, False), (8, True)])
def test_the_next_recorded_step_is_the_first_that_is_not_idle(factor, keeps_scalars):
    budget = Budget(0.03)
    budget.factor, budget.keeps_scalars = factor, keeps_scalars
    for due in range(200):
        slow = next(later for later in range(due + 1, due + 200) if budget.kind_of(later) is not Kind.IDLE)
        assert budget.next_recorded(due) == slow


def test_a_few_slow_steps_change_nothing():
    budget = Budget(0.03)
    run(budget, 0.008, 40)
    found = [
        budget.note(budget.kind_of(due), PLAIN + (9.0 if due in (44, 45, 46, 47) else 0.008), due)
        for due in range(40, 80)
    ]
    assert found == [None] * 40


def train(config, steps):
    """Losses, records and events of a small training that is watched."""
    net = nn.SequentialCell(nn.Dense(16, 16, key=Key(1)), nn.ReLU(), nn.Dense(16, 4, key=Key(2)))
    net.set_train()
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    x = Tensor(np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32))
    with open_store("memory:") as store:
        losses = []
        with watch(net, optimizer, store=store, config=config) as monitor:
            for _ in range(steps):
                optimizer.zero_grad()
                loss = (net(x) * net(x)).mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.numpy().tobytes())
        run_id = monitor.run.id
        found = thinning_of(store, run_id)
        return losses, list(store.replay(run_id)), store.events(run_id, kind="schedule_thinned"), found


def test_a_run_whose_monitor_costs_too_much_is_thinned_and_says_so():
    full, every, nothing, _ = train({"every": 1}, 60)
    losses, records, thinned, told = train({"every": 1, "budget": "1%", "subjects": {"optimizer": False}}, 120)
    assert losses[:60] == full  # bit for bit
    assert nothing == ()
    assert all(record.blocks for record in every)
    assert thinned[0].data["factor"] > 1
    assert thinned[0].data["share"] > thinned[0].data["budget"] == 0.01
    assert {"activation", "weight", "histogram"} <= set(thinned[0].data["subjects"])
    assert not {"weight/spectrum", "optimizer"} & set(thinned[0].data["subjects"])
    assert ("loss" in thinned[0].data["subjects"]) is not thinned[0].data["keeps_scalars"]
    with_tensors = [record.step for record in records if record.blocks]
    assert with_tensors[:3] == [0, 1, 2]
    assert len(with_tensors) < 60
    assert all("loss" in record.scalars for record in records if record.blocks)
    gap = next(step for step, seen in enumerate(with_tensors) if step != seen)
    assert (told.since, told.factor) == (gap, thinned[-1].data["factor"])
    assert gap < thinned[0].step  # what steps cost is compared first
    assert {"activation", "weight", "histogram"} <= set(told.subjects)
    assert ("loss" in told.subjects) is any(not one.data["keeps_scalars"] for one in thinned)
    assert "attention" not in told.subjects  # which this model has not


def test_a_step_that_the_budget_leaves_out_is_idle():
    recorder = BudgetedRecorder(load_config(budget="1%"), lambda record: None)
    budget, due, current = recorder.due._budget, recorder.due, recorder.current
    budget.factor, budget.keeps_scalars, current.has_recorded = 4, False, True
    budget._compares_from = 10**6
    kinds = []
    for step in range(9):
        current.step = step
        if step >= due.wakes_at or not current.is_idle:
            due.decide()
        kinds.append((due.kind, current.is_idle))
    recorded = [step for step, kind in enumerate(kinds) if kind == (Kind.FULL, False)]
    assert recorded == [0, 6, 8]  # one of four, at another place each time
    assert all(kinds[step] == (Kind.IDLE, True) for step in range(9) if step not in recorded)


@pytest.mark.parametrize("value", ["3 percent", "", 0, -0.1, "0%", "100%", 200, True, [0.1], float("nan")])
def test_a_budget_that_is_no_share_is_refused(value):
    with pytest.raises(ConfigError, match="budget"):
        load_config(budget=value)


@pytest.mark.parametrize(("value", "words"), [(1, "1% or 0.01"), (1.0, "1% or 0.01"), ("3", "3% or 0.03")])
def test_a_bare_number_that_may_be_a_percentage_is_asked_back(value, words):
    with pytest.raises(ConfigError, match=f"got {value!r}; write {words}$"):
        load_config(budget=value)


def test_a_budget_is_a_share_or_a_percentage():
    assert load_config(budget="3%").budget == load_config(budget=0.03).budget == 0.03
