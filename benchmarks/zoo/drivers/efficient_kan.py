"""A Kolmogorov-Arnold network reads drawn marks instead of MNIST, by Blealtan's efficient-kan example script."""

import runpy
import sys
from unittest import mock

import torch
from zoo_repository import FOLDER

torch.use_deterministic_algorithms(True)  # or the least squares of its splines begin from unset memory
sys.path.insert(0, FOLDER + "/src")
torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
marks = torch.nn.functional.interpolate(torch.randn(10, 1, 7, 7), size=28, mode="bilinear")


def drawn(root, train, **_):  # ten smooth random pictures, shifted and with noise
    labels = torch.randint(0, 10, (2560 if train else 400,))
    shifts = torch.randint(-4, 5, (len(labels), 2)).tolist()
    images = torch.stack([marks[k].roll(shift, (1, 2)) for k, shift in zip(labels, shifts)])
    return torch.utils.data.TensorDataset(images + 0.5 * torch.randn_like(images), labels)


torchvision = mock.MagicMock()
torchvision.datasets.MNIST = drawn
sys.modules.update({"torchvision": torchvision, "torchvision.transforms": torchvision.transforms})
print("result", runpy.run_path(FOLDER + "/examples/mnist.py", run_name="__main__")["val_loss"])
