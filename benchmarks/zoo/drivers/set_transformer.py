"""A Set Transformer learns to cluster sets of points, by the training script of its authors (juho-lee)."""

import os
import runpy
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
from zoo_repository import FOLDER

seed = sys.argv[1] if len(sys.argv) > 1 else "0"
torch.manual_seed(int(seed))
np.random.seed(int(seed))
sys.modules.update({name: mock.MagicMock() for name in ("matplotlib", "matplotlib.pyplot", "plots")})  # no pictures
torch.nn.Module.cuda = torch.Tensor.cuda = lambda self: self  # the script asks for a GPU; stay on the CPU
os.chdir(tempfile.mkdtemp())
sys.argv = ["run.py", "--num_bench=10", "--N_min=50", "--N_max=100", "--K=2", "--num_steps=360"]
script = runpy.run_path(FOLDER + "/run.py", run_name="__main__")
script["net"].eval()
torch.manual_seed(1000)
with torch.no_grad():
    sets = script["mog"].sample(200, 100, script["K"])
    print("result", -script["mog"].log_prob(sets, *script["mvn"].parse(script["net"](sets))).item())
