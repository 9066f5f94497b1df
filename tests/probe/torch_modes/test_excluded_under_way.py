"""Parameters of a torch model that are excluded while it trains, and those that were and are no longer."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch (torch) is not installed")

from mindscope.probe import watch  # noqa: E402
from mindscope.probe import watch_session as beginning  # noqa: E402
from mindscope.probe.reconfiguration import request_change  # noqa: E402

SUBJECTS = ("weight", "gradient", "update", "optimizer/exp_avg")


@pytest.mark.parametrize("optimizers", [1, 2])
def test_what_is_recorded_of_parameters_follows_the_exclusions(store, monkeypatch, optimizers) -> None:
    monkeypatch.setattr(beginning, "LOOK_S", -1.0)
    monkeypatch.setattr(beginning, "DATABASE_LOOK_S", -1.0)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    groups = [[*model.parameters()]] if optimizers == 1 else [[*one.parameters()] for one in model]
    steppers = [torch.optim.Adam(group) for group in groups]
    config = {"exclude": ["1.bias"], "histograms": {"every": 1}, "subjects": {"update/direction": True}}
    with watch(model, steppers, store=store, config=config) as monitor:
        run = monitor.run.id
        for step in range(9):
            if step in (3, 6):
                request_change(store.control_channel(run), {"exclude": ["0.weight"] if step == 3 else []})
                monitor.flush()
            (model(torch.randn(5, 4)) ** 2).mean().backward()
            for one in steppers:
                one.step()
                one.zero_grad()
            monitor.flush()
    found = {
        site: [store.series(run, site, f"{subject}/l2_norm").steps.tolist() for subject in SUBJECTS]
        for site in ("0.bias", "0.weight", "1.bias")
    }
    assert found["0.bias"] == [[*range(9)]] * 4
    for steps in found["0.weight"]:
        assert steps == found["0.weight"][0]
        assert len(steps) == 6
    for steps in found["1.bias"]:
        assert steps == [*range(steps[0], 9)]
        assert steps[0] in (3, 4)
    assert store.events(run, kind="monitor_fault") == ()
