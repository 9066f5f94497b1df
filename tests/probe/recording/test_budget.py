"""The monitor stays below its budget: by the figures it is given, and in a real run by its own."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import SGD
from mindscope.insight.schedule_thinning import thinning_of
from mindscope.probe import ConfigError, load_config, watch
from mindscope.probe.recording.overhead_budget import Budget
from mindscope.storage import open_store


def run(budget, share, steps):
    """The average cost over so many due steps when a recorded one costs `share` of the step."""
    paid = 0.0
    for due in range(steps):
        if not budget.skips(due):
            paid += share
            budget.note(share, 1.0 + share)
    return paid / steps


@pytest.mark.parametrize("share", [0.001, 0.02, 0.1, 0.7, 5.0])
def test_the_average_stays_below_the_budget(share):
    budget = Budget(0.03)
    run(budget, share, 2000)
    assert run(budget, share, 4096) <= 0.03 * 1.05
    assert budget.factor == 1 or share / (budget.factor // 2) > 0.03


def test_what_became_cheap_is_recorded_more_often_again():
    budget = Budget(0.03)
    run(budget, 1.0, 2000)
    assert budget.factor == 64
    run(budget, 0.01, 4000)
    assert budget.factor == 1


def test_a_few_slow_steps_change_nothing():
    budget = Budget(0.03)
    shares = [0.01] * 12 + [9.0] * 4 + [0.01] * 20
    assert [budget.note(share, 1.0 + share) for share in shares] == [None] * len(shares)


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
    losses, records, thinned, told = train({"every": 1, "budget": "1%", "subjects": {"optimizer": False}}, 60)
    assert losses == full  # bit for bit
    assert nothing == ()
    assert all(record.blocks for record in every)
    assert thinned[0].data["factor"] > 1
    assert {"activation", "weight", "histogram"} <= set(thinned[0].data["subjects"])
    assert not {"loss", "step_seconds", "weight/spectrum", "optimizer"} & set(thinned[0].data["subjects"])
    assert thinned[0].data["share"] > thinned[0].data["budget"] == 0.01
    with_tensors = [record.step for record in records if record.blocks]
    assert with_tensors[:10] == list(range(10))
    assert len(with_tensors) < 40
    assert all("loss" in record.scalars for record in records)
    assert (told.since, told.factor) == (thinned[0].step, thinned[-1].data["factor"])
    assert {"activation", "weight", "histogram"} <= set(told.subjects)
    assert "attention" not in told.subjects  # which this model has not


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
