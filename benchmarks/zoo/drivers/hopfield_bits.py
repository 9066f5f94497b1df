"""A pooling layer of Hopfield memory finds which bags hold a secret pattern, by ml-jku's hopfield-layers."""

import sys

import torch
import torch.nn.functional as F
from hflayers import HopfieldPooling
from hflayers.auxiliary.data import BitPatternSet

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
settings = {"num_instances": 8, "num_signals": 3, "num_signals_per_bag": 1, "num_bits": 8, "seed_signals": seed}
train, test = [BitPatternSet(n, **settings, seed_data=1000 * seed + n) for n in (800, 400)]
torch.manual_seed(seed)
pooling = HopfieldPooling(input_size=8, hidden_size=8, num_heads=8, update_steps_max=3, scaling=0.25)
model = torch.nn.Sequential(pooling, torch.nn.Flatten(), torch.nn.Linear(pooling.output_size, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-4)
for epoch in range(60):
    for bags in torch.utils.data.DataLoader(train, batch_size=32, shuffle=True):
        loss = F.binary_cross_entropy_with_logits(model(bags["data"])[:, 0], bags["target"])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0, norm_type=2)
        optimizer.step()
    print(epoch, loss.item())
model.eval()
bags = next(iter(torch.utils.data.DataLoader(test, batch_size=400)))
with torch.no_grad():
    print("result", F.binary_cross_entropy_with_logits(model(bags["data"])[:, 0], bags["target"]).item())
