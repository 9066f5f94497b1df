"""Ten clients train one network by federated averaging, by AshwinRJ's script, on drawn marks instead of MNIST."""

import argparse
import os
import runpy
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from zoo_repository import FOLDER

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
np.random.seed(seed)
marks = F.interpolate(torch.randn(10, 1, 7, 7), size=28, mode="bilinear")


class Drawn(torch.utils.data.TensorDataset):  # ten smooth random pictures, shifted and with noise
    def __init__(self, root, train, **_):
        labels = torch.randint(0, 10, (2000 if train else 500,))
        shifts = torch.randint(-4, 5, (len(labels), 2)).tolist()
        images = torch.stack([marks[k].roll(shift, (1, 2)) for k, shift in zip(labels, shifts)])
        super().__init__(images + torch.randn_like(images), labels)


torchvision = mock.MagicMock()
torchvision.datasets.MNIST = Drawn
sys.modules.update({"torchvision": torchvision, "tensorboardX": mock.MagicMock()})
sys.path.insert(0, FOLDER + "/src")
argparse.Namespace.gpu_id = None  # the script reads this option, but does not define it
os.chdir(tempfile.mkdtemp())
os.makedirs("save/objects")
os.chdir("save")
sys.argv = "federated_main.py --model=cnn --num_users=10 --frac=0.3 --epochs=12 --local_ep=2 --verbose=0".split()
script = runpy.run_path(FOLDER + "/src/federated_main.py", run_name="__main__")
print("result", script["test_loss"] / 4)
