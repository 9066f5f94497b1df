"""Watch a PyTorch training: one line before the loop, and the loop stays as it was.

python examples/watch_pytorch.py [STORE]
mindscope dashboard STORE
"""

import sys

import mindscope as ms
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy


def main(store: str) -> None:
    torch.manual_seed(0)
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    classes = torch.tensor(labels, dtype=torch.int64)

    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    with ms.watch(model, optimizer, store=store, run="digits", tags={"lr": 3e-3}) as monitor:
        for _ in range(100):
            batch = torch.randint(len(images), (64,))
            optimizer.zero_grad()
            logits = model(images[batch])
            loss = cross_entropy(logits, classes[batch])
            loss.backward()
            optimizer.step()  # closes the step by itself
            monitor.log(accuracy=float((logits.argmax(1) == classes[batch]).float().mean()))

    print(f"{monitor.run.name}: {monitor.step} steps in {store}, {len(monitor.findings)} findings")
    for finding in monitor.findings:
        print(f"  {finding.severity}: {finding.cause} at {finding.site} since step {finding.first_step}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
