"""A PyTorch training that does not know of mindscope.

mindscope run -- examples/plain_pytorch.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy


def main() -> None:
    torch.manual_seed(0)
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16, dtype=torch.float32)
    classes = torch.tensor(labels, dtype=torch.int64)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(60):
        batch = torch.randint(len(images), (64,))
        optimizer.zero_grad()
        loss = cross_entropy(model(images[batch]), classes[batch])
        loss.backward()
        optimizer.step()
    print(f"trained to a loss of {loss.item():.3f}")


if __name__ == "__main__":
    main()
