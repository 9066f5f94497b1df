"""Rates that rise before they fall: closed forms, PyTorch's one cycle, continuity."""

import pytest
from mindscope.framework.optim import (
    ConstantRate,
    CosineDecay,
    CosineRestarts,
    InverseSquareRoot,
    Listed,
    OneCycle,
    WarmUp,
)

try:
    import torch
except ModuleNotFoundError:
    torch = None


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed; it is the witness")
@pytest.mark.parametrize("shape", ["cosine", "linear"])
def test_one_cycle_is_that_of_pytorch(shape):
    twin = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(twin, 0.4, 20, anneal_strategy="cos" if shape == "cosine" else shape)
    mine = OneCycle(0.4, 20, shape=shape)
    for step in range(20):
        assert mine(step) == pytest.approx(twin.param_groups[0]["lr"], rel=1e-9)
        twin.step()
        if step < 19:
            schedule.step()
    assert mine(25) == pytest.approx(mine(19))


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed; it is the witness")
@pytest.mark.parametrize("factor", [1, 2])
def test_cosine_restarts_are_those_of_pytorch(factor):
    twin = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(twin, 3, factor, eta_min=0.01)
    mine = CosineRestarts(0.3, 3, factor, 0.01)
    for step in range(25):
        assert mine(step) == pytest.approx(twin.param_groups[0]["lr"], rel=1e-9)
        twin.step()
        schedule.step()


def test_a_warm_up_leads_into_the_schedule_after_it():
    schedule = WarmUp(4, CosineDecay(0.2, 10))
    assert [schedule(s) for s in range(5)] == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.2])
    assert [schedule(s + 4) for s in range(12)] == [CosineDecay(0.2, 10)(s) for s in range(12)]
    assert WarmUp(2, ConstantRate(0.3))(9) == 0.3


def test_an_inverse_root_peaks_at_the_end_of_its_warm_up():
    schedule = InverseSquareRoot(0.1, 4)
    assert [schedule(s) for s in (0, 3, 15)] == pytest.approx([0.025, 0.1, 0.05])
    assert max(schedule(s) for s in range(100)) == schedule(3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: OneCycle(0.1, 1), "total_steps of at least 2"),
        (lambda: OneCycle(0.1, 9, rising=1.0), "rising between 0 and 1"),
        (lambda: OneCycle(0.1, 9, shape="square"), "cosine or linear, got 'square'"),
        (lambda: OneCycle(0.1, 9, start_factor=0.5), "factors of 1 or more"),
        (lambda: CosineRestarts(0.1, 0), "first_steps of at least 1"),
        (lambda: WarmUp(0, ConstantRate(0.1)), "steps of at least 1"),
        (lambda: InverseSquareRoot(-0.1, 4), "finite rates"),
        (lambda: Listed([0.1, float("nan")]), "finite rates"),
    ],
)
def test_arguments_out_of_range_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
