"""Images of digits and networks that read them, with weights that stand beside this file; `train.py` made them.

The images are those of scikit-learn, 8 x 8 in [0, 1]; about half of their pixels are exactly 0 or 1, so that attacks
meet the box. `plain` and `mlp` were trained as usual, `robust` on adversarial examples within 0.1 in Linf.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MODELS: Final = Path(__file__).parent / "models"
NAMES: Final = ("plain", "robust", "mlp")
_TRAINING: Final = 1297  # of 1797 images; the others are attacked


def images(training: bool = False) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """`(n, 1, 8, 8)` images and their classes: the 500 to be attacked, or those that the networks learned from."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    rows = order[:_TRAINING] if training else order[_TRAINING:]
    x = (found.images[rows, None] / 16.0).astype(np.float32)
    return x, found.target[rows].astype(np.int64)


def torch_network(name: str) -> Any:
    """The torch module of that name without its weights; any other is a convolutional one."""
    from torch import nn

    if name == "mlp":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
        )
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(384, 48), nn.ReLU(), nn.Linear(48, 10),
    )  # fmt: skip


def torch_model(name: str) -> Any:
    """The torch module with its weights, in evaluation mode."""
    import torch

    model = torch_network(name)
    with np.load(MODELS / f"{name}.npz") as stored:
        model.load_state_dict({key: torch.from_numpy(stored[key].astype(np.float32)) for key in stored})
    return model.eval().requires_grad_(False)


def engine_model(name: str) -> Any:
    """The same network as a cell of the engine, in evaluation mode."""
    from mindscope.framework import Tensor, nn

    if name == "mlp":
        cells = [nn.Flatten(), nn.Dense(64, 128), nn.ReLU(), nn.Dense(128, 64), nn.ReLU(), nn.Dense(64, 10)]
    else:
        cells = [
            nn.Conv2d(1, 12, 3, pad_mode="pad", padding=1, has_bias=True), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, pad_mode="pad", padding=1, has_bias=True), nn.ReLU(),
            nn.Flatten(), nn.Dense(384, 48), nn.ReLU(), nn.Dense(48, 10),
        ]  # fmt: skip
    model = nn.SequentialCell(*cells)
    with np.load(MODELS / f"{name}.npz") as stored:
        for key in stored:
            number, _, kind = key.partition(".")
            getattr(cells[int(number)], kind).set_data(Tensor(stored[key].astype(np.float32)))
    return model.set_train(False)
