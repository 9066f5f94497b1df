"""The state of real optimizers follows its own recurrence; whatever else writes to it breaks it in that step."""

from collections.abc import Callable

import mindscope
import pytest
import torch
from torch import nn

STEPS, AT = 24, 12
Act = Callable[[torch.optim.Optimizer], object]


def trained(make: Callable[..., torch.optim.Optimizer], act: Act | None, *, dtype: torch.dtype = torch.float32) -> list:
    """The findings of a small training in which something is done to the optimizer before one step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(dtype)
    optimizer = make(model.parameters())
    with mindscope.open_store("memory:") as store:
        monitor = mindscope.watch(model, optimizer, store=store)
        for step in range(STEPS):
            inputs = torch.randn(16, 8, dtype=dtype)
            loss = nn.functional.cross_entropy(model(inputs).float(), inputs[:, :4].argmax(-1))
            optimizer.zero_grad()
            loss.backward()
            if act is not None and step == AT:
                act(optimizer)
            optimizer.step()
        monitor.close()
        found = mindscope.diagnose(store, "latest").findings
    causes = ("optimizer_state_stale", "silent_data_corruption", "resume_mismatch")
    return [(finding.cause, finding.step) for finding in found if finding.cause in causes]


def scaled(slot: str, by: float) -> Act:
    return lambda optimizer: [state[slot].mul_(by) for state in optimizer.state.values()]


def hit(slot: str) -> Act:
    def act(optimizer: torch.optim.Optimizer) -> None:
        next(iter(optimizer.state.values()))[slot].view(-1)[5] = 100.0

    return act


def adam(parameters, **options):
    return torch.optim.Adam(parameters, lr=1e-3, **options)


def momentum(parameters, **options):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, **options)


@pytest.mark.parametrize("make", [adam, momentum])
@pytest.mark.parametrize("wraps", [False, True], ids=["alone", "among many"])
def test_the_state_of_a_layer_that_takes_the_place_of_another_begins_anew(make, wraps: bool) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(8, 8), *(nn.Identity() for _ in range(40)), nn.Linear(8, 4)]
    model = nn.Sequential(*layers)
    optimizer = make(model.parameters())
    with mindscope.open_store("memory:") as store:
        monitor = mindscope.watch(model, optimizer, store=store)
        for step in range(STEPS):
            if step == AT:
                model[41] = nn.Linear(8, 4)
                optimizer.add_param_group({"params": model[41].parameters()})
                for layer in range(1, 41 if wraps else 1):
                    model[layer] = nn.Identity()
            inputs = torch.randn(16, 8)
            loss = nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(-1))
            optimizer.zero_grad()
            loss.backward()
            if step == AT + 6:
                next(iter(optimizer.state.values()))["exp_avg_sq" if make is adam else "momentum_buffer"].mul_(3.0)
            optimizer.step()
        monitor.close()
        (event,) = store.events(monitor.run.id, kind="modules_changed")
        found = mindscope.diagnose(store, "latest").findings
    assert event.step == AT
    assert [finding.step for finding in found if finding.cause == "optimizer_state_stale"] == [AT + 6]


def train_with_an_exchange(store, *, overflows: bool, writes: bool) -> list[list[int]]:
    """The steps with findings, live and over the store, of a training whose last layer is exchanged."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1000)
    monitor = mindscope.watch(model, optimizer, store=store, config={"accumulation_steps": 2})
    for step in range(STEPS):
        if step == AT:
            model[2] = nn.Linear(16, 4)
            optimizer.param_groups[0]["params"][2:] = list(model[2].parameters())
        optimizer.zero_grad()
        for _ in range(2):
            inputs = torch.randn(16, 8)
            loss = nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(-1)) / 2
            if overflows and step == AT:
                loss = loss * 1e38
            scaler.scale(loss).backward()
        if writes and step == AT + 7:
            scaled("exp_avg_sq", 3.0)(optimizer)
        scaler.step(optimizer)
        scaler.update()
    monitor.close()
    diagnoses = monitor.findings, mindscope.diagnose(store, "latest").findings
    return [[finding.step for finding in found if finding.cause == "optimizer_state_stale"] for found in diagnoses]


@pytest.mark.parametrize("overflows", [False, True], ids=["at-once", "after-an-overflow"])
@pytest.mark.parametrize("writes", [False, True], ids=["by-itself", "written"])
def test_an_exchange_before_the_first_of_several_backward_passes_begins_the_state_anew(overflows, writes) -> None:
    with mindscope.open_store("memory:") as store:
        live, stored = train_with_an_exchange(store, overflows=overflows, writes=writes)
    assert live == stored == ([AT + 7] if writes else [])


@pytest.mark.parametrize(
    ("make", "act", "cause"),
    [
        (adam, scaled("exp_avg_sq", 3.0), "optimizer_state_stale"),
        (adam, scaled("exp_avg_sq", 0.5), "optimizer_state_stale"),
        (lambda p: torch.optim.RMSprop(p, lr=1e-3), scaled("square_avg", 3.0), "optimizer_state_stale"),
        (lambda p: torch.optim.NAdam(p, lr=1e-3), scaled("exp_avg_sq", 3.0), "optimizer_state_stale"),
        (momentum, scaled("momentum_buffer", -1.0), "optimizer_state_stale"),
        (lambda p: momentum(p, weight_decay=1e-2), scaled("momentum_buffer", 0.0), "optimizer_state_stale"),
        (adam, hit("exp_avg_sq"), "silent_data_corruption"),
    ],
    ids=["adam-up", "adam-down", "rmsprop", "nadam", "momentum", "momentum-decay", "one-element"],
)
def test_state_that_somebody_writes_is_told_in_the_very_step(make, act, cause):
    assert (cause, AT) in trained(make, act)


def change(**options: object) -> Act:
    return lambda optimizer: [group.update(options) for group in optimizer.param_groups]


def halve(optimizer: torch.optim.Optimizer) -> None:
    """What a hook behind the monitor's does: clip by the norm of all."""

    def shorten(optimizer: torch.optim.Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(0.5)

    optimizer.register_step_pre_hook(shorten)


@pytest.mark.parametrize(
    ("make", "act", "dtype"),
    [
        (adam, None, torch.float32),
        (adam, None, torch.bfloat16),
        (momentum, None, torch.bfloat16),
        (lambda p: adam(p, weight_decay=0.1), None, torch.float32),
        (lambda p: adam(p, amsgrad=True), None, torch.float32),
        (lambda p: momentum(p, nesterov=True, weight_decay=1e-2), None, torch.float32),
        (lambda p: momentum(p, dampening=0.3), None, torch.float32),
        (adam, change(betas=(0.9, 0.997)), torch.float32),
        (momentum, change(momentum=0.8), torch.float32),
        (adam, halve, torch.float32),
    ],
    ids=["adam", "bfloat16", "momentum-bfloat16", "decay", "amsgrad", "nesterov", "dampening", "beta", "mu", "hook"],
)
def test_what_optimizers_do_by_themselves_and_options_that_change_break_nothing(make, act, dtype):
    assert trained(make, act, dtype=dtype) == []
