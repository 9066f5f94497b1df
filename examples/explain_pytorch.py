"""Ask a PyTorch network where in an image it looks, in six ways, and how far each answer can be trusted.

python examples/explain_pytorch.py [STORE]
"""

import sys

import mindscope as ms
import numpy as np
import torch
from mindscope.insight import saliency
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy


def main(store: str) -> None:
    torch.manual_seed(0)
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    classes = torch.tensor(labels, dtype=torch.int64)
    features = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
    head = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10))
    model = nn.Sequential(features, head)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    with ms.watch(model, optimizer, store=store, run="digits", config={"every": 10}):
        for _ in range(100):
            batch = torch.randint(1500, (64,))
            optimizer.zero_grad()
            cross_entropy(model(images[batch]), classes[batch]).backward()
            optimizer.step()
    model.eval()
    digit = int(classes[1500])
    image = images[1500].numpy().astype(np.float64)

    def score(inputs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(torch.from_numpy(inputs).float())[:, digit].numpy()

    def gradient(inputs: np.ndarray) -> np.ndarray:
        x = torch.from_numpy(inputs).float().requires_grad_()
        (found,) = torch.autograd.grad(model(x)[:, digit].sum(), x)
        return found.numpy()

    activation = features(images[1500:1501])
    (slope,) = torch.autograd.grad(head(activation)[0, digit], activation)
    found = {
        "gradient": saliency.plain_gradient(gradient, image),
        "integrated gradients": saliency.integrated_gradients(gradient, image),
        "smooth gradient": saliency.smooth_gradient(gradient, image),
        "grad-cam": saliency.grad_cam(activation[0].detach().numpy(), slope[0].numpy(), (8, 8)),
        "occlusion": saliency.occlusion(score, image, window=2, stride=1),
        "rise": saliency.rise(score, image, masks=500, cells=4),
    }
    ink = image[0] > 0.5
    for name, field in found.items():
        places = field.sum(axis=0) if field.ndim == 3 else field
        trust, where = saliency.faithfulness(score, image, field), saliency.localisation(places, ink)
        print(f"{name:<22} faithfulness {trust:5.2f}, on the ink {where.energy:.0%} (by chance {where.chance:.0%})")
    moved = saliency.stability(lambda x: saliency.integrated_gradients(gradient, x), image, radius=0.02)
    print(f"integrated gradients move by {moved.largest:.1%} at most when no pixel moves by more than 2 %")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
