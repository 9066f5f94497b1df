"""In the first common step rounding is told from a wrong kernel by dtype, length of sums and place in the step."""

from dataclasses import replace

import numpy as np
import pytest
from mindscope import watch
from mindscope.insight.compare import compare, comparison_to_json, render_comparison
from mindscope.insight.compare.noise import Rounding
from mindscope.insight.compare.pairing import TensorPair
from mindscope.storage import ParameterInfo, Structure, open_store

from tests.insight.compare.test_compare import STATISTICS, compared, structure, training

torch = pytest.importorskip("torch")


def wrong(size, since=0, until=99):
    """A kernel whose results are off by that share."""

    def change(step, subject, site, x):
        return x * (1.0 + size) if since <= step <= until and (subject, site) == ("activation", "block.1") else x

    return change


def of(dtype, shape=(8, 8)):
    parameters = tuple(replace(parameter, dtype=dtype, shape=shape) for parameter in structure().parameters)
    return replace(structure(), parameters=parameters)


@pytest.mark.parametrize("size", [1e-5, 5e-4, 9e-4])
def test_a_wrong_kernel_is_never_called_rounding_of_float32(size):
    found = compared(training(noise=1e-8), training(change=wrong(size)))
    assert (found.verdict, found.is_start_clear) == ("unclear", False)
    assert (found.first.step, found.first.site, found.first.metric) == (0, "block.1", "activation/l2_norm")
    assert found.first.difference == pytest.approx(size, rel=0.01)
    assert found.first.floor < 5e-6
    words = render_comparison(found)
    assert "cannot tell" in words
    assert f"rounding explains {found.first.floor:.3g}" in words
    assert comparison_to_json(found)["is_start_clear"] is False


def test_what_is_no_rounding_for_certain_is_another_start():
    found = compared(training(noise=1e-8), training(change=wrong(2e-3)))
    assert (found.verdict, found.first.site, found.is_start_clear) == ("different_start", "block.1", True)
    assert [divergence.site for divergence in found.also] == []


def test_who_parts_later_hears_that_the_start_was_unclear():
    found = compared(training(noise=1e-8, change=wrong(5e-4)), training(change=wrong(0.1, since=6)))
    assert (found.verdict, found.first.step, found.is_start_clear) == ("diverged", 6, False)
    assert "from the start, perhaps by more than rounding" in render_comparison(found)


@pytest.mark.parametrize(
    ("dtype", "noise", "verdict"),
    [
        ("float64", 1e-15, "within_noise"),
        ("float64", 1e-9, "unclear"),
        ("float32", 1e-7, "within_noise"),
        ("float16", 1e-3, "within_noise"),
        ("bfloat16", 8e-3, "within_noise"),
        ("bfloat16", 0.2, "different_start"),
    ],
)
def test_the_dtype_of_the_parameters_says_how_much_rounding_is(dtype, noise, verdict):
    found = compared(training(), training(noise=noise), (of(dtype), of(dtype)))
    assert found.verdict == verdict


def test_the_coarser_dtype_of_both_counts():
    assert compared(training(), training(noise=1e-3), (of("float32"), of("bfloat16"))).verdict == "within_noise"


def tensor(subject="activation", site="a", *, norm=1.0, mean=0.1):
    row = np.array([norm, mean, 0.5, -1.0, 1.0, 0, 0, 0, 0, 64.0])
    return TensorPair((1, 0), (subject, site, 0), STATISTICS, row, row)


def explained(tensors, terms=100, dtype="float32"):
    parameters = () if dtype is None else (ParameterInfo("a.weight", (4, terms), dtype),)
    return list(Rounding([Structure(parameters=parameters)]).explains(tensors))


def test_the_bound_is_the_one_of_the_paper_with_a_margin():
    limits = explained([tensor()] * 9)
    assert limits[0][0] == pytest.approx(4 * 2.0**-24 * 10)
    assert limits[8][0] == pytest.approx(3 * limits[0][0])
    assert explained([tensor()], terms=400)[0][0] == pytest.approx(2 * limits[0][0])
    assert limits[0][2] == pytest.approx(2 * limits[0][0])  # a spread of half of what the elements reach
    assert explained([tensor()], dtype=None)[0][0] < 1e-4


def test_a_gradient_that_is_rounding_altogether_says_nothing_and_neither_does_what_is_made_of_it():
    subjects = ("gradient", "optimizer/exp_avg", "update", "weight")
    step = [
        tensor("gradient", "b"),
        *(tensor(subject, norm=1e-7 if subject == "gradient" else 1.0) for subject in subjects),
    ]
    limits = explained(step)
    assert np.isfinite(limits[0]).all()
    assert all(np.isinf(limit).all() for limit in limits[1:])


class Elsewhere(torch.nn.Module):
    """A convolution or linear layer whose sums run in another order, and whose results may be off."""

    def __init__(self, layer, off=0.0):
        super().__init__()
        self.weight, self.bias, self.off = layer.weight, layer.bias, off
        self.order = torch.randperm(layer.weight.shape[1], generator=torch.Generator().manual_seed(1))

    def forward(self, x):
        compute = torch.nn.functional.conv2d if self.weight.dim() == 4 else torch.nn.functional.linear
        return compute(x[:, self.order], self.weight[:, self.order], self.bias) * (1.0 + self.off)


def recorded(store, change):
    """A training of a network whose first bias has no gradient but rounding."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(16, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(32 * 36, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    change(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x, y = torch.randn(16, 16, 8, 8), torch.randint(0, 5, (16,))
    with watch(model, optimizer, store=store) as monitor:
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return store.find_run(monitor.run.id)


@pytest.mark.parametrize(
    ("off", "verdict"), [(0.0, "within_noise"), (1e-4, "unclear"), (5e-4, "different_start"), (0.01, "different_start")]
)
def test_sums_in_another_order_are_rounding_and_a_wrong_kernel_is_not(off, verdict):
    def change(model):
        model[0], model[4] = Elsewhere(model[0]), Elsewhere(model[4], off)

    with open_store("memory:") as store:
        runs = recorded(store, lambda _: None), recorded(store, change)
        found = compare((store, store), runs)
    assert found.verdict == verdict
    assert found.first is None or (found.first.step, found.first.site) == (0, "4")
