"""Deep SVDD learns what ordinary pictures look like and finds the odd ones, by its author's trainers (lukasruff)."""

import logging
import random
import sys

import numpy as np
import torch
import torch.nn.functional as F
from zoo_repository import FOLDER

sys.path.insert(0, FOLDER + "/src")
from base.torchvision_dataset import TorchvisionDataset  # noqa: E402
from deepSVDD import DeepSVDD  # noqa: E402

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
random.seed(seed)
np.random.seed(seed)
torch.manual_seed(seed)
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
marks = torch.sigmoid(3 * F.interpolate(torch.randn(10, 1, 6, 6), size=28, mode="bilinear"))


def drawn(n, kinds):  # one smooth picture, shifted and with noise; odd ones have another mixed in
    labels = torch.randint(0, kinds, (n,)) * torch.randint(0, 2, (n,))
    images = [0.7 * marks[0] + 0.3 * marks[k].roll(torch.randint(-2, 3, (2,)).tolist(), (1, 2)) for k in labels]
    images = torch.stack(images) + 0.3 * torch.randn(n, 1, 28, 28)
    return torch.utils.data.TensorDataset(images.clamp(0, 1), (labels > 0).long(), torch.arange(n))


data = TorchvisionDataset.__new__(type("Drawn", (TorchvisionDataset,), {}))
data.train_set, data.test_set = drawn(960, 1), drawn(800, 10)
model = DeepSVDD("one-class")
model.set_network("mnist_LeNet")
model.pretrain(data, lr=0.0001, n_epochs=10, lr_milestones=(8,), batch_size=64, weight_decay=5e-7, device="cpu")
model.train(data, lr=0.0001, n_epochs=15, lr_milestones=(10,), batch_size=64, weight_decay=5e-7, device="cpu")
model.test(data, device="cpu")
print("result", 1 - float(model.results["test_auc"]))
