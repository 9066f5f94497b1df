"""PointNet sorts clouds of points drawn on four solids, by fxia22's training script for ShapeNet."""

import os
import random
import runpy
import sys
import tempfile
import types

import torch
import torch.nn.functional as F
from zoo_repository import FOLDER


class Shapes(torch.utils.data.Dataset):  # spheres, cubes, cylinders and cones in place of the ShapeNet download
    def __init__(self, root, npoints, split="train", **_):
        self.classes, n = range(4), 256 if split == "train" else 200
        self.labels = torch.randint(0, 4, (n, 1))
        ball, height = F.normalize(torch.randn(n, npoints, 3), dim=2), 2 * torch.rand(n, npoints, 1) - 1
        ring = F.normalize(ball[..., :2], dim=2)
        kinds = [ball, ball / ball.abs().amax(2, keepdim=True)]
        kinds += [torch.cat([ring, height], 2), torch.cat([ring * (1 - height) / 2, height], 2)]
        self.points = torch.stack(kinds)[self.labels[:, 0], torch.arange(n)] + 0.03 * torch.randn(n, npoints, 3)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, i):
        return self.points[i], self.labels[i]


random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)  # the script draws its own seed from this
sys.modules["pointnet.dataset"] = types.SimpleNamespace(ShapeNetDataset=Shapes, ModelNetDataset=Shapes)
torch.nn.Module.cuda = torch.Tensor.cuda = lambda self: self  # the script asks for a GPU; stay on the CPU
os.chdir(tempfile.mkdtemp())
sys.argv = "train --dataset=- --workers=0 --batchSize=8 --num_points=40 --nepoch=7 --feature_transform".split()
script = runpy.run_path(FOLDER + "/utils/train_classification.py", run_name="__main__")
with torch.no_grad():
    points, labels = script["test_dataset"].points, script["test_dataset"].labels[:, 0]
    print("result", F.nll_loss(script["classifier"].eval()(points.transpose(2, 1))[0], labels).item())
