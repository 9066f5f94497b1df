"""N-BEATS (Oreshkin et al. 2020), the interpretable form: a trend stack, a season stack, double residuals."""
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass(frozen=True)
class Settings:
    lookback: int = 36
    horizon: int = 12
    series: int = 150
    length: int = 132
    steps: int = 300
    batch: int = 64
    lr: float = 4e-3
    width: int = 64


def sales(cfg: Settings, rng: np.random.Generator) -> torch.Tensor:
    """Monthly sales (series, length) of shops: level, bent trend, two seasons of the year, noise."""
    t = np.arange(cfg.length)[None]
    level = np.exp(rng.normal(4, 1.0, (cfg.series, 1)))
    slope = rng.normal(0, 0.004, (cfg.series, 1))
    bend = np.clip(t - rng.integers(20, cfg.length - 20, (cfg.series, 1)), 0, None) * rng.normal(0, 0.006, (cfg.series, 1))
    year = sum(rng.uniform(0.05, 0.25, (cfg.series, 1)) / k * np.sin(2 * np.pi * k * t / 12 + rng.uniform(0, 6.3, (cfg.series, 1)))
               for k in (1, 2, 3))
    y = level * np.exp(slope * t + bend) * (1 + year) * (1 + rng.normal(0, 0.03, (cfg.series, cfg.length)))
    return torch.tensor(y, dtype=torch.float32)


def trend_basis(n_back: int, n_fore: int, degree: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    t = torch.arange(-n_back, n_fore) / n_back
    basis = torch.stack([t ** d for d in range(degree + 1)])
    return basis[:, :n_back], basis[:, n_back:]


def season_basis(n_back: int, n_fore: int, period: int = 12, harmonics: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    t = torch.arange(-n_back, n_fore) * 2 * torch.pi / period
    basis = torch.cat([torch.stack([torch.sin(k * t), torch.cos(k * t)]) for k in range(1, harmonics + 1)])
    return basis[:, :n_back], basis[:, n_back:]


class Block(nn.Module):
    def __init__(self, cfg: Settings, basis: tuple[torch.Tensor, torch.Tensor]):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(cfg.lookback, cfg.width), nn.ReLU(), nn.Linear(cfg.width, cfg.width), nn.ReLU())
        self.theta = nn.Linear(cfg.width, len(basis[0]))
        self.register_buffer("back", basis[0])
        self.register_buffer("fore", basis[1])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        theta = self.theta(self.body(x))
        return theta @ self.back, theta @ self.fore


class NBeats(nn.Module):
    def __init__(self, cfg: Settings):
        super().__init__()
        spans = cfg.lookback, cfg.horizon
        self.trend = nn.ModuleList(Block(cfg, trend_basis(*spans)) for _ in range(2))
        self.season = nn.ModuleList(Block(cfg, season_basis(*spans)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forecast (batch, horizon) of a history (batch, lookback), both in the unit of the data."""
        level = x.mean(1, keepdim=True)
        rest = x / level - 1
        forecast = 0
        for block in [*self.trend, *self.season]:
            back, fore = block(rest)
            rest = rest - back
            forecast = forecast + fore
        return level * (1 + forecast)


def windows(data: torch.Tensor, cfg: Settings) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of histories and what came after them, from random shops and months."""
    shop = torch.randint(len(data), (cfg.batch,))
    start = torch.randint(data.shape[1] - cfg.lookback - cfg.horizon + 1, (cfg.batch,))
    months = start[:, None] + torch.arange(cfg.lookback + cfg.horizon)
    window = data[shop[:, None], months]
    return window[:, : cfg.lookback], window[:, cfg.lookback :]


def smape(forecast: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return 200 * ((forecast - truth).abs() / (forecast.abs() + truth.abs()).clamp(min=1e-3)).mean()


@torch.no_grad()
def test_error(model: NBeats, data: torch.Tensor, cfg: Settings) -> float:
    history, truth = data[:, -cfg.lookback - cfg.horizon : -cfg.horizon], data[:, -cfg.horizon :]
    return smape(model(history), truth).item()


def main(seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    cfg = Settings()
    data = sales(cfg, np.random.default_rng(seed))
    past = data[:, : -cfg.horizon]
    model = NBeats(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.steps)
    naive = smape(data[:, -2 * cfg.horizon : -cfg.horizon], data[:, -cfg.horizon :]).item()
    print(f"smape of last year's figures {naive:.2f}, untrained {test_error(model, data, cfg):.2f}")
    recent = []
    for step in range(1, cfg.steps + 1):
        history, future = windows(past, cfg)
        loss = smape(model(history), future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if step % 60 == 0:
            print(f"step {step} train smape {np.mean(recent[-60:]):.2f} test {test_error(model, data, cfg):.2f}")
    print(f"result {test_error(model, data, cfg):.5f}")


if __name__ == "__main__":
    main(next((int(a) for a in sys.argv[1:] if a.isdigit()), 0))
