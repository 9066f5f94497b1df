"""A network of spiking neurons sorts drawn marks instead of MNIST, by yjwu17's script with its surrogate gradient."""

import os
import runpy
import sys
import tempfile
from unittest import mock

import torch
import torch.nn.functional as F
from zoo_repository import FOLDER

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
import spiking_model  # noqa: E402

spiking_model.batch_size, spiking_model.num_epochs = 10, 4  # the script's settings live in this module
spiking_model.cfg_cnn = [(1, 4, 1, 1, 3), (4, 4, 1, 1, 3)]
marks = torch.sigmoid(2 * F.interpolate(torch.randn(10, 1, 7, 7), size=28, mode="bilinear"))


def drawn(root, train, **_):  # ten smooth random pictures, shifted and with noise
    labels = torch.randint(0, 10, (500 if train else 200,))
    shifts = torch.randint(-2, 3, (len(labels), 2)).tolist()
    images = torch.stack([marks[k].roll(shift, (1, 2)) for k, shift in zip(labels, shifts)])
    return torch.utils.data.TensorDataset((images + 0.6 * torch.randn_like(images)).clamp(0, 1), labels)


torchvision = mock.MagicMock()
torchvision.datasets.MNIST = drawn
sys.modules.update({"torchvision": torchvision, "torchvision.transforms": torchvision.transforms})
os.chdir(tempfile.mkdtemp())
script = runpy.run_path(FOLDER + "/main.py", run_name="__main__")
with torch.no_grad():
    errors = [F.mse_loss(script["snn"](x), F.one_hot(y, 10).float()).item() for x, y in script["test_loader"]]
print("result", sum(errors) / len(errors))
