"""The steps that an optimizer's state counts: what went back was lost, and what another optimizer counts was not."""

from types import SimpleNamespace

from mindscope.probe.facts.step_facts import OptimizerSteps


class Optimizer:
    def __init__(self, count):
        self.count = count


def watched(optimizers):
    told = []
    recorder = SimpleNamespace(event=lambda kind, **data: told.append((kind, data)))
    return OptimizerSteps(recorder, optimizers, lambda one: one.count, lambda _one: ["exp_avg"]), told


def test_a_count_that_goes_back_is_lost_state():
    optimizers = [Optimizer(30)]
    steps, told = watched(optimizers)
    steps.before_step()
    steps.step_ends()
    optimizers[0].count = 7
    told.clear()
    steps.before_step()
    expected = {"optimizer": 0, "count": 7, "count_before": 30, "is_another": False}
    assert told == [("optimizer_state_lost", expected)]


def test_one_optimizer_may_take_the_place_of_two():
    optimizers = [Optimizer(5), Optimizer(5)]
    steps, told = watched(optimizers)
    steps.before_step()
    steps.step_ends()
    del optimizers[1]
    steps.step_ends()
    told.clear()
    optimizers.append(Optimizer(2))
    steps.before_step()
    assert [(kind, data["count"]) for kind, data in told if kind != "resumed"] == [("optimizer_step_count", 2)]


def test_a_smaller_count_of_another_optimizer_in_its_place_is_told_as_that():
    optimizers = [Optimizer(800)]
    steps, told = watched(optimizers)
    steps.before_step()
    steps.step_ends()
    optimizers[0] = Optimizer(15)
    told.clear()
    steps.before_step()
    assert [data["is_another"] for _, data in told] == [True]
    told.clear()
    optimizers[0].count = 3
    steps.before_step()
    assert [data["is_another"] for _, data in told] == [False]
