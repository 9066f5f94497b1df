"""Heteroscedastic regression with a deep ensemble (beta-NLL), variance rescaled on a validation split, calibration on test data."""
import math
import sys

import numpy as np
import torch
from torch import nn

FEATURES = 5
N_TRAIN, N_VAL, N_TEST = 1500, 500, 3000
MEMBERS = 4
EPOCHS = 25
BATCH = 50
BETA = 0.5
PATIENCE = 8


def simulate(n, rng):
    x = rng.uniform(-2.0, 2.0, (n, FEATURES))
    signal = 12.0 * np.sin(1.5 * x[:, 0]) + 5.0 * x[:, 1] * x[:, 2] + 3.0 * np.abs(x[:, 3])
    sigma = 0.6 + 4.0 / (1.0 + np.exp(-3.0 * x[:, 4]))
    y = 50.0 + signal + sigma * rng.standard_normal(n)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.float32))


class Standardizer:
    def __init__(self, values):
        self.mean = values.mean(0)
        self.std = values.std(0)

    def __call__(self, values):
        return (values - self.mean) / self.std


class GaussianMLP(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(FEATURES, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
        )
        self.mean_head = nn.Linear(hidden, 1)
        self.var_head = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.trunk(x)
        mean = self.mean_head(h).squeeze(-1)
        var = nn.functional.softplus(self.var_head(h)).squeeze(-1) + 1e-4
        return mean, var


def gaussian_nll(mean, var, y):
    return 0.5 * (math.log(2 * math.pi) + var.log() + (y - mean).square() / var)


def beta_nll(mean, var, y):
    weight = var.detach() ** BETA
    return (weight * gaussian_nll(mean, var, y)).mean()


def fit_member(x, y, x_val, y_val):
    model = GaussianMLP()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    best, best_state, stale = math.inf, None, 0
    for epoch in range(EPOCHS):
        model.train()
        for idx in torch.randperm(len(x)).split(BATCH):
            mean, var = model(x[idx])
            loss = beta_nll(mean, var, y[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            score = gaussian_nll(*model(x_val), y_val).mean().item()
        if score < best:
            best, stale = score, 0
            best_state = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            stale += 1
            if stale >= PATIENCE:
                break
    model.load_state_dict(best_state)
    return model.eval(), best


class DeepEnsemble:
    """Moment-matched Gaussian mixture of the members, in the units of the raw target."""

    def __init__(self, members, x_scaler, y_scaler):
        self.members = members
        self.x_scaler = x_scaler
        self.y_scaler = y_scaler
        self.temperature = 1.0

    @torch.no_grad()
    def predict(self, x):
        outputs = [m(self.x_scaler(x)) for m in self.members]
        means = torch.stack([mean for mean, _ in outputs])
        variances = torch.stack([var for _, var in outputs])
        mean = means.mean(0)
        var = (variances + means.square()).mean(0) - mean.square()
        mean = mean * self.y_scaler.std + self.y_scaler.mean
        var = var * self.y_scaler.std ** 2
        return mean, var * self.temperature

    def calibrate(self, x, y):
        self.temperature = 1.0
        mean, var = self.predict(x)
        self.temperature = ((y - mean).square() / var).mean().item()


def calibration_error(mean, var, y):
    """Mean gap between nominal and observed coverage of central intervals."""
    normal = torch.distributions.Normal(mean, var.sqrt())
    pit = normal.cdf(y)
    gaps = []
    for level in np.linspace(0.1, 0.9, 9):
        inside = ((pit - 0.5).abs() <= level / 2).float().mean().item()
        gaps.append(abs(inside - level))
    return float(np.mean(gaps))


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    x, y = simulate(N_TRAIN, rng)
    x_val, y_val = simulate(N_VAL, rng)
    x_test, y_test = simulate(N_TEST, rng)
    x_scaler, y_scaler = Standardizer(x), Standardizer(y)

    members = []
    for i in range(MEMBERS):
        member, score = fit_member(x_scaler(x), y_scaler(y), x_scaler(x_val), y_scaler(y_val))
        members.append(member)
        print(f"member {i} validation nll {score:.4f}")

    ensemble = DeepEnsemble(members, x_scaler, y_scaler)
    ensemble.calibrate(x_val, y_val)
    mean, var = ensemble.predict(x_test)
    constant = gaussian_nll(y.mean(), y.var(), y_test).mean().item()
    print(f"variance factor {ensemble.temperature:.3f}")
    print(f"rmse {(mean - y_test).square().mean().sqrt().item():.3f}")
    print(f"calibration error {calibration_error(mean, var, y_test):.4f}")
    print(f"constant nll {constant:.4f}")
    print(f"result {gaussian_nll(mean, var, y_test).mean().item():.4f}")


if __name__ == "__main__":
    main()
