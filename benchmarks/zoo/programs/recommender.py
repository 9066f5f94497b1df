"""Matrix factorisation with biases on synthetic ratings (explicit feedback)."""

import sys
import numpy as np
import torch
from torch import nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
rng = np.random.default_rng(seed)
torch.manual_seed(seed)
USERS, ITEMS, K = 400, 300, 6
p, q = rng.normal(0, 0.5, (USERS, K)), rng.normal(0, 0.5, (ITEMS, K))
bu, bi = rng.normal(0, 0.4, USERS), rng.normal(0, 0.4, ITEMS)
u, i = rng.integers(0, USERS, 40000), rng.integers(0, ITEMS, 40000)
r = np.clip(3.5 + bu[u] + bi[i] + (p[u] * q[i]).sum(1) + rng.normal(0, 0.3, len(u)), 1, 5)
users, items, ratings = torch.tensor(u), torch.tensor(i), torch.tensor(r, dtype=torch.float32)
cut = 34000


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_items, n_factors=16):
        super().__init__()
        self.user_factors = nn.Embedding(n_users, n_factors)
        self.item_factors = nn.Embedding(n_items, n_factors)
        self.user_biases = nn.Embedding(n_users, 1)
        self.item_biases = nn.Embedding(n_items, 1)
        self.global_mean = nn.Parameter(torch.tensor(ratings[:cut].mean().item()))
        for emb in (self.user_factors, self.item_factors):
            nn.init.normal_(emb.weight, std=0.1)
        for emb in (self.user_biases, self.item_biases):
            nn.init.zeros_(emb.weight)

    def forward(self, user, item):
        dot = (self.user_factors(user) * self.item_factors(item)).sum(1)
        return dot + self.user_biases(user).squeeze(1) + self.item_biases(item).squeeze(1) + self.global_mean


model = MatrixFactorization(USERS, ITEMS)
loss_func = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
for epoch in range(8):
    shuffled = torch.randperm(cut)
    total = 0.0
    for batch in shuffled.split(256):
        prediction = model(users[batch], items[batch])
        loss = loss_func(prediction, ratings[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    with torch.no_grad():
        test_mse = loss_func(model(users[cut:], items[cut:]), ratings[cut:]).item()
    print(f"epoch {epoch} train mse {total / cut:.4f} test mse {test_mse:.4f}")
print("result", test_mse)
