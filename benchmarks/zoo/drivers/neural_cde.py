"""A controlled differential equation tells which way a spiral turns, by patrick-kidger's NeuralCDE example."""

import runpy
import sys

import torch
import torch.nn.functional as F
from zoo_repository import FOLDER

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
import controldiffeq  # noqa: E402

example = runpy.run_path(FOLDER + "/example/example.py")


def spirals():
    times, paths, labels = example["get_data"]()
    times, paths = times[::10], paths[:, ::10] + 0.2 * torch.randn(128, 10, 3) * torch.tensor([0.0, 1.0, 1.0])
    return times, controldiffeq.natural_cubic_spline_coeffs(times, paths), labels


times, coefficients, labels = spirals()
model = example["NeuralCDE"](input_channels=3, hidden_channels=8, output_channels=1)
optimizer = torch.optim.Adam(model.parameters())
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*coefficients, labels), batch_size=16)
for epoch in range(26):
    for *paths, targets in loader:
        loss = F.binary_cross_entropy_with_logits(model(times, paths).squeeze(-1), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(epoch, loss.item())
times, coefficients, labels = spirals()
with torch.no_grad():
    print("result", F.binary_cross_entropy_with_logits(model(times, coefficients).squeeze(-1), labels).item())
