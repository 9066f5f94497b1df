"""A target that begins inside of the window that a model is given, and targets that only look alike."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional
CHECK = "targets_begin_behind_the_input"


class Forecaster(nn.Module):
    """`(samples, 24, channels)` to `(samples, horizon, channels)`."""

    def __init__(self, horizon):
        super().__init__()
        self.map = nn.Linear(24, horizon)

    def forward(self, x):
        return self.map(x.transpose(1, 2)).transpose(1, 2)


@pytest.mark.parametrize(
    ("begins", "outcome"), [(24, "held"), (23, "broken"), (12, "broken")], ids=["behind", "one early", "all inside"]
)
@pytest.mark.parametrize("channel", [slice(None), slice(1, 2)], ids=["all channels", "one channel"])
def test_a_forecast_of_what_is_given_is_a_leak(told, begins, outcome, channel):
    torch.manual_seed(0)
    model = Forecaster(12)

    def loss():
        series = torch.randn(16, 40, 3).cumsum(1)
        wanted = series[:, begins : begins + 12, channel]
        return functional.mse_loss(model(series[:, :24])[..., channel], wanted)

    found = told([model], loss)
    assert found.outcomes[CHECK, "x"] == outcome
    assert found.causes.get("data_leak") == ("warning" if outcome == "broken" else None)


@pytest.mark.parametrize("kind", ["next position", "rebuilt", "bits"])
def test_what_only_looks_alike_is_none(told, kind):
    torch.manual_seed(0)
    model = Forecaster(12 if kind == "bits" else 24)

    def loss():
        series = torch.randn(16, 25, 3)
        series = (series > 0).float() if kind == "bits" else series
        wanted = {"next position": series[:, 1:], "rebuilt": series[:, :24], "bits": series[:, 12:24]}[kind]
        return functional.mse_loss(model(series[:, :24]), wanted)

    assert (CHECK, "x") not in told([model], loss).outcomes


def test_features_that_are_copied_have_no_positions(told):
    torch.manual_seed(0)
    model = nn.Linear(24, 12)

    def loss():
        return functional.mse_loss(model(torch.randn(16, 24)), torch.randn(16, 12))

    assert (CHECK, "input") not in told([model], loss).outcomes
