"""Tabular model: embeddings for categories, batch norm for numbers, binary target."""

import sys
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
rng = np.random.default_rng(seed)
torch.manual_seed(seed)
n = 8000
df = pd.DataFrame(
    {
        "city": rng.integers(0, 30, n),
        "device": rng.choice(["phone", "desktop", "tablet"], n),
        "weekday": rng.integers(0, 7, n),
        "age": rng.normal(40, 12, n).clip(18, 90),
        "income": rng.lognormal(10, 0.5, n),
        "visits": rng.poisson(4, n),
    }
)
city_effect = rng.normal(0, 1, 30)
score = (
    city_effect[df.city]
    + 0.8 * (df.device == "desktop")
    - 0.04 * (df.age - 40)
    + 0.9 * np.log(df.income / 22000)
    + 0.25 * (df.visits - 4) * (df.weekday >= 5)
)
df["bought"] = (rng.random(n) < 1 / (1 + np.exp(-1.5 * score))).astype(int)

cat_cols, cont_cols = ["city", "device", "weekday"], ["age", "income", "visits"]
for col in cat_cols:
    df[col] = df[col].astype("category").cat.codes
train_df, valid_df = df.iloc[:6400].copy(), df.iloc[6400:].copy()
mean, std = train_df[cont_cols].mean(), train_df[cont_cols].std()


class TabularDataset(Dataset):
    def __init__(self, frame):
        self.cats = frame[cat_cols].values.astype(np.int64)
        self.conts = ((frame[cont_cols] - mean) / std).values.astype(np.float32)
        self.y = frame["bought"].values.astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.cats[i], self.conts[i], self.y[i]


class TabularModel(nn.Module):
    def __init__(self, sizes, n_cont):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(c, s) for c, s in sizes])
        self.bn_cont = nn.BatchNorm1d(n_cont)
        total = sum(s for _, s in sizes) + n_cont
        self.layers = nn.Sequential(
            nn.Linear(total, 64),
            nn.ReLU(),
            nn.BatchNorm1d(64),
            nn.Dropout(0.1),
            nn.Linear(64, 32),
            nn.ReLU(),
            nn.Linear(32, 1),
        )

    def forward(self, x_cat, x_cont):
        x = torch.cat([e(x_cat[:, i]) for i, e in enumerate(self.embeds)] + [self.bn_cont(x_cont)], 1)
        return self.layers(x).squeeze(1)


model = TabularModel([(30, 8), (3, 2), (7, 4)], len(cont_cols))
opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5)
train_dl = DataLoader(TabularDataset(train_df), batch_size=64, shuffle=True)
valid_dl = DataLoader(TabularDataset(valid_df), batch_size=400)
for epoch in range(8):
    model.train()
    total = 0.0
    for cats, conts, y in train_dl:
        loss = F.binary_cross_entropy_with_logits(model(cats, conts), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        valid = sum(
            F.binary_cross_entropy_with_logits(model(a, b), y, reduction="sum").item() for a, b, y in valid_dl
        ) / len(valid_df)
    print(f"epoch {epoch} train {total / len(train_dl):.4f} valid {valid:.4f}")
print("result", valid)
