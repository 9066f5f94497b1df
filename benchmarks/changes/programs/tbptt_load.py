"""Forecast the electricity load of many stations with a GRU, truncated back-propagation through time."""
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Settings:
    stations: int = 24
    hours: int = 6000
    validation_hours: int = 1000
    chunk: int = 48
    hidden: int = 64
    layers: int = 2
    dropout: float = 0.1
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    max_norm: float = 1.0
    epochs: int = 8
    seed: int = 5
    device: str = field(default_factory=lambda: "cuda" if torch.cuda.is_available() else "cpu")


def make_series(s):
    """Load in megawatt, one row per station: daily and weekly rhythm, growth, autoregressive noise."""
    rng = np.random.default_rng(s.seed)
    hour = np.arange(s.hours)
    load = np.empty((s.stations, s.hours), dtype=np.float32)
    for i in range(s.stations):
        base, day, week = rng.uniform(40, 90), rng.uniform(5, 15), rng.uniform(2, 8)
        noise = np.zeros(s.hours)
        for t in range(1, s.hours):
            noise[t] = 0.8 * noise[t - 1] + rng.normal(0, 1.0)
        load[i] = (base + day * np.sin(2 * np.pi * (hour + rng.integers(24)) / 24)
                   + week * np.cos(2 * np.pi * hour / 168) + 30 * hour / s.hours + noise)
    return torch.from_numpy(load)


def station_vectors(series):
    """A description of each station to start its embedding from: mean, spread and daily profile."""
    profile = series[:, : series.shape[1] // 24 * 24].reshape(len(series), -1, 24).mean(1)
    return (profile - profile.mean()) / profile.std()


class Forecaster(nn.Module):
    def __init__(self, s, vectors):
        super().__init__()
        self.station = nn.Embedding.from_pretrained(vectors, freeze=False)
        self.gru = nn.GRU(1 + vectors.shape[1], s.hidden, s.layers, batch_first=True, dropout=s.dropout)
        self.head = nn.Linear(s.hidden, 1)

    def forward(self, load, station, state=None):
        about = self.station(station).unsqueeze(1).expand(-1, load.shape[1], -1)
        out, state = self.gru(torch.cat([load.unsqueeze(-1), about], dim=-1), state)
        return self.head(out).squeeze(-1), state


class Experiment:
    def __init__(self, s):
        self.s = s
        torch.manual_seed(s.seed)
        series = make_series(s)
        train, valid = series[:, : -s.validation_hours], series[:, -s.validation_hours:]
        mean, std = train.mean(), train.std()
        self.train_series = ((train - mean) / std).to(s.device)
        self.valid_series = ((valid - mean) / std).to(s.device)
        self.station = torch.arange(s.stations, device=s.device)
        self.model = Forecaster(s, station_vectors(train)).to(s.device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=s.learning_rate,
                                           weight_decay=s.weight_decay)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimiser, mode="min", factor=0.5,
                                                                    patience=1)
        self.criterion = nn.MSELoss()

    def chunks(self, series):
        for start in range(0, series.shape[1] - self.s.chunk, self.s.chunk):
            stop = start + self.s.chunk
            yield series[:, start:stop], series[:, start + 1:stop + 1]

    def train_epoch(self):
        self.model.train()
        state, losses = None, []
        for load, target in self.chunks(self.train_series):
            forecast, state = self.model(load, self.station, state)
            state = state.detach()
            loss = self.criterion(forecast, target)
            self.optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.s.max_norm)
            self.optimiser.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        state, losses = None, []
        for load, target in self.chunks(self.valid_series):
            forecast, state = self.model(load, self.station, state)
            losses.append(self.criterion(forecast, target).item())
        return sum(losses) / len(losses)

    def run(self):
        for epoch in range(1, self.s.epochs + 1):
            train_loss, valid_loss = self.train_epoch(), self.validate()
            self.scheduler.step(valid_loss)
            rate = self.optimiser.param_groups[0]["lr"]
            print(f"[{epoch:02d}] train {train_loss:.5f}  valid {valid_loss:.5f}  rate {rate:.2e}")


if __name__ == "__main__":
    Experiment(Settings()).run()
