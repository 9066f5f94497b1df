"""Hooks on modules are there while they are needed, and the numbers are the same whether they ever came off."""

from types import SimpleNamespace

import mindscope
import pytest
from mindscope.probe.hooks.idle_hooks import Several, SiteHooks
from mindscope.storage import open_store

torch = pytest.importorskip("torch")


def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch = torch.randn(8, 4)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return model, optimizer, step


def hooks_of(model) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


def steps_with_activations(folder, config, steps: int) -> tuple[list[int], list[int], list[float]]:
    """At which steps activations are in the store; hooks on the modules behind every step; losses."""
    model, optimizer, step = training()
    hooks, losses = [], []
    with open_store(folder) as store, mindscope.watch(model, optimizer, store=store, config=config) as monitor:
        for _ in range(steps):
            losses.append(step())
            hooks.append(hooks_of(model))
        monitor.flush()
        found = store.series(monitor.run.id, "0", "activation/l2_norm").steps.tolist()
    assert hooks_of(model) == 0
    return found, hooks, losses


def test_hooks_come_off_between_distant_due_steps_and_miss_none(tmp_path):
    found, hooks, losses = steps_with_activations(tmp_path, {"every": 10}, 32)
    assert found == [0, 10, 20, 30]
    assert [step for step, count in enumerate(hooks) if count] == [9, 19, 29]
    _, _, step = training()
    assert losses == [step() for _ in range(32)]


def test_hooks_stay_on_between_close_due_steps(tmp_path):
    found, hooks, _ = steps_with_activations(tmp_path, {"every": 3, "checks": False}, 12)
    assert found == [0, 3, 6, 9]
    assert set(hooks) == {4}  # and not the one that looks for dead units at every fifteenth step


def test_hooks_come_off_for_good_when_nothing_of_modules_is_recorded(tmp_path):
    found, hooks, _ = steps_with_activations(tmp_path, {"subjects": ["gradient"], "checks": False}, 6)
    assert found == []
    assert set(hooks) == {0}


def test_hooks_that_come_back_see_what_the_module_returned_before_hooks_of_others(tmp_path):
    model, optimizer, step = training()
    returned = []

    def double(_module, _inputs, output):
        returned.append(float(output.detach().norm()))
        return output * 2.0

    with open_store(tmp_path) as store, mindscope.watch(model, optimizer, store=store, config={"every": 10}) as monitor:
        step()
        model[0].register_forward_hook(double)
        for _ in range(11):
            step()
        monitor.flush()
        seen = store.series(monitor.run.id, "0", "activation/l2_norm")
    assert seen.steps.tolist() == [0, 10]
    assert seen.values[1] == pytest.approx(returned[9], rel=1e-6)


def hooks_anywhere(model, optimizer) -> int:
    """Hooks of any kind that the training would call."""
    before = sum(len(module._forward_pre_hooks) for module in model.modules())
    return (
        hooks_of(model) + before + len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
    )


def test_between_distant_due_steps_only_the_optimizer_has_hooks(tmp_path):
    model, optimizer, step = training()
    with open_store(tmp_path) as store, mindscope.watch(model, optimizer, store=store, config={"every": 20}) as monitor:
        step()
        assert hooks_anywhere(model, optimizer) == 2
        for _ in range(18):
            step()
        assert hooks_anywhere(model, optimizer) == 2
        step()
        assert monitor.step == 20
        assert hooks_anywhere(model, optimizer) > 2
        for _ in range(21):
            step()
        monitor.flush()
        assert store.series(monitor.run.id, "0.weight", "gradient/l2_norm").steps.tolist() == [0, 20, 40]
        assert store.series(monitor.run.id, "", "scalar/loss").steps.tolist() == [0, 20, 40]
    assert hooks_anywhere(model, optimizer) == 0


def test_scalars_of_steps_at_which_nothing_is_due_belong_to_their_step(tmp_path):
    model, optimizer, step = training()
    with open_store(tmp_path) as store, mindscope.watch(model, optimizer, store=store, config={"every": 50}) as monitor:
        for number in range(12):
            step()
            monitor.log(behind=float(number))
        monitor.flush()
        found = store.series(monitor.run.id, "", "scalar/behind")
    assert found.steps.tolist() == found.values.tolist() == list(range(12))


def test_scalars_that_are_logged_inside_such_a_step_belong_to_it(tmp_path):
    model, optimizer, _ = training()
    with open_store(tmp_path) as store, mindscope.watch(model, optimizer, store=store, config={"every": 50}) as monitor:
        for number in range(12):
            loss = model(torch.ones(8, 4)).square().mean()
            monitor.log(inside=float(number))
            loss.backward()
            optimizer.step()
        monitor.flush()
        found = store.series(monitor.run.id, "", "scalar/inside")
    assert found.steps.tolist() == found.values.tolist() == list(range(12))


def test_the_store_hears_of_the_last_step_though_nothing_was_due(tmp_path):
    model, optimizer, step = training()
    with open_store(tmp_path) as store, mindscope.watch(model, optimizer, store=store, config={"every": 50}) as monitor:
        for _ in range(30):
            step()
        monitor.flush()
        assert store.runs(limit=1)[0].last_step == 29


@pytest.mark.parametrize(("may_rest", "left"), [({"may_rest": lambda site: site == "0"}, ["1"]), ({}, ["0", "1"])])
def test_a_site_whose_hooks_rest_is_watched_still_and_hooks_rest_only_where_they_may(may_rest, left):
    idle = SimpleNamespace(is_looking=False, sees_inputs=False, sees_input_grads=False)
    recorder, on = SimpleNamespace(current=idle, due=SimpleNamespace(rests=lambda _: True)), []

    def register(site, _is_again):
        on.append(site)
        return Several([SimpleNamespace(remove=lambda: on.remove(site))])

    sites = SiteHooks(recorder, register, **may_rest)
    sites.watch(["0", "1"])
    sites.follow()
    assert on == left
    assert "0" in sites
    sites.watch(["1"])
    assert on == ["1"]
    assert "0" not in sites
