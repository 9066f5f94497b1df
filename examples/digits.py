"""Train a classifier of digits in PyTorch; `build` gives back the trained model to whoever checks it.

mindscope run --name digits -- examples/digits.py
mindscope armour evaluate examples/digits.py:build --data digits.npz --epsilons 0.05,0.1 --parent digits
"""

import numpy as np
import torch
from sklearn.datasets import load_digits

WEIGHTS, UNSEEN = "digits.pt", "digits.npz"


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def build() -> torch.nn.Module:
    model = network()
    model.load_state_dict(torch.load(WEIGHTS))
    return model.eval()


def main() -> None:
    torch.manual_seed(0)
    pixels, labels = load_digits(return_X_y=True)
    x = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)  # between 0 and 1, the box that an attack must stay in
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        batch = torch.randint(0, 1500, (128,))
        loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(x)[batch]), torch.from_numpy(labels)[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), WEIGHTS)
    np.savez(UNSEEN, x=x[1500:], y=labels[1500:])
    print(f"trained to a loss of {loss.item():.3f}; the model is in {WEIGHTS}, 297 unseen digits are in {UNSEEN}")


if __name__ == "__main__":
    main()
