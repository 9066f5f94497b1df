"""Tables of where a model's tensors lie: used again while they can be, and what is read by them."""

import numpy as np
import pytest
import torch
from mindscope.probe.adapters.torch.torch_parameters import TorchView
from mindscope.probe.collectors.collector import Step
from mindscope.probe.collectors.parameter_collectors import OptimizerSlots
from mindscope.probe.configuration.config_loading import load_config
from mindscope.probe.kernels import statistics_of
from mindscope.probe.recording.recorder import Recorder


def _view(model: torch.nn.Module, *optimizers: torch.optim.Optimizer) -> TorchView:
    view = TorchView(lambda site, reason: pytest.fail(f"{site}: {reason}"))
    view.add(model.named_parameters())
    view.optimizers += optimizers
    return view


def _with_gradients(model: torch.nn.Module) -> TorchView:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return _view(model)


def _trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(4, 3, generator=torch.Generator().manual_seed(0))).square().sum().backward()
    optimizer.step()


def test_a_table_that_is_used_again_tells_where_the_gradients_lie_now():
    model = torch.nn.Linear(3, 2)
    view = _with_gradients(model)
    before = view.gradients()
    held = [parameter.grad for parameter in model.parameters()]  # so that others lie elsewhere
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    now = view.gradients()
    assert now is before
    assert all(one is not parameter.grad for one, parameter in zip(held, model.parameters(), strict=True))
    assert now.addresses.tolist() == [parameter.grad.data_ptr() for parameter in model.parameters()]
    np.testing.assert_array_equal(now.statistics()[:, 1], [2.0, 2.0])


def test_a_table_is_made_again_when_a_gradient_is_gone():
    model = torch.nn.Linear(3, 2)
    view = _with_gradients(model)
    before = view.gradients()
    model.bias.grad = None
    assert view.gradients().present.tolist() == [True, False]
    assert before.present.tolist() == [True, True]


@pytest.mark.parametrize(
    ("make", "slots"),
    [
        (lambda parameters: torch.optim.Adam(parameters), {"exp_avg", "exp_avg_sq"}),
        (lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9), {"momentum_buffer"}),
        (lambda parameters: torch.optim.SGD(parameters, 0.1), set()),
    ],
    ids=["two slots", "one slot", "none"],
)
def test_slots_that_are_measured_together_have_the_statistics_of_each(make, slots):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2, dtype=torch.float32))
    model[1].bias.requires_grad_(False)  # which has no state
    optimizer = make(model.parameters())
    view, collect = _view(model, optimizer), OptimizerSlots()
    for number in range(4):
        _trained(model, optimizer)
        found = collect(Step(view, number))
        assert {name.removeprefix("optimizer/") for name in found} == slots
        for name, rows in found.items():
            for row, present, parameter in zip(rows.values, rows.present, model.parameters(), strict=True):
                state = optimizer.state.get(parameter, {}).get(name.removeprefix("optimizer/"))
                assert present == (state is not None)
                expected = np.full(10, np.nan) if state is None else statistics_of(state.numpy())
                np.testing.assert_array_equal(row, expected)


def test_slots_that_are_exchanged_are_measured_where_they_are_now():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    view, collect = _view(model, optimizer), OptimizerSlots()
    for number in range(3):
        _trained(model, optimizer)
        collect(Step(view, number))
    optimizer.load_state_dict({**optimizer.state_dict()})
    optimizer.state[model.weight]["exp_avg"] = torch.full_like(model.weight, 3.0)
    rows = collect(Step(view, 3))["optimizer/exp_avg"]
    assert rows.values[0, 1] == 3.0


def test_who_listens_for_some_collectors_is_told_when_these_begin_or_end():
    told: list[tuple[str, int]] = []
    config = load_config({"subjects": {"activation/units": 3, "gradient": 1}, "histograms": {"every": 2}})
    recorder = Recorder(config, lambda _: None)
    for name in ("activation/units", "histogram"):
        recorder.due.subscribe(lambda name=name: told.append((name, recorder.current.step)), of=frozenset({name}))
    told.clear()
    view = _view(torch.nn.Linear(1, 1))
    for _ in range(7):
        recorder.forward_begins()
        recorder.before_step(view)
        recorder.after_step(view)
    assert [step for name, step in told if name == "activation/units"] == [1, 3, 4, 6, 7]
    assert [step for name, step in told if name == "histogram"] == [1, 2, 3, 4, 5, 6, 7]
