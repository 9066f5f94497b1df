"""Makes the weights in `models/`: python benchmarks/attacks/train.py. They are stored, so that no benchmark trains."""

import numpy as np
import torch
from digits import MODELS, NAMES, images, torch_network
from mindscope.armour import PGD, wrap

_EPSILON = 0.1
_BATCH = 64


def train(name: str, seed: int = 0) -> torch.nn.Module:
    """The trained network; `robust` learns from examples that ten steps of PGD have made of every batch."""
    torch.manual_seed(seed)
    model, (x, y) = torch_network(name), (torch.from_numpy(part) for part in images(training=True))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    epochs = 80 if name == "robust" else 40
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        for number, rows in enumerate(torch.randperm(len(x)).split(_BATCH)):
            batch = x[rows]
            if name == "robust":
                model.eval()
                attack = PGD(steps=10, step_size=0.25, random_start=True)
                found = attack(wrap(model), batch, y[rows].numpy(), epsilons=[_EPSILON], seed=1000 * epoch + number)
                batch = found.adversarials[0]
            model.train()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), y[rows]).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


if __name__ == "__main__":
    MODELS.mkdir(exist_ok=True)
    for name in NAMES:
        weights = {key: value.numpy().astype(np.float16) for key, value in train(name).state_dict().items()}
        np.savez_compressed(MODELS / f"{name}.npz", **weights)
