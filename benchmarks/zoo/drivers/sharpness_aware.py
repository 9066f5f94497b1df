"""A wide residual network trains with sharpness-aware steps on drawn marks, by davda54's SAM example script."""

import os
import runpy
import sys
import tempfile
import types

import torch
import torch.nn.functional as F
from zoo_repository import FOLDER

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
marks = F.interpolate(torch.randn(10, 3, 8, 8), size=32, mode="bilinear")


class Drawn:  # ten smooth random pictures, shifted and with noise, in place of CIFAR
    def __init__(self, batch_size, threads):
        self.train, self.test = [self.loader(n, batch_size) for n in (256, 320)]

    def loader(self, n, batch_size):
        labels = torch.randint(0, 10, (n,))
        shifts = torch.randint(-2, 3, (n, 2)).tolist()
        images = torch.stack([marks[k].roll(shift, (1, 2)) for k, shift in zip(labels, shifts)])
        pairs = torch.utils.data.TensorDataset(images + 0.5 * torch.randn_like(images), labels)
        return torch.utils.data.DataLoader(pairs, batch_size, shuffle=True)


sys.path[:0] = [FOLDER + "/example", FOLDER]
sys.modules["data.cifar"] = types.SimpleNamespace(Cifar=Drawn)
seed_all = torch.manual_seed
torch.manual_seed = lambda fixed: seed_all(fixed + seed)  # the script fixes its seed at 42
os.chdir(tempfile.mkdtemp())
sys.argv = "train.py --batch_size=8 --depth=4 --width_factor=1 --epochs=7 --threads=0".split()
script = runpy.run_path(FOLDER + "/example/train.py", run_name="__main__")
images, labels = script["dataset"].test.dataset.tensors
with torch.no_grad():
    print("result", F.cross_entropy(script["model"](images), labels).item())
