"""An equivariant graph network forecasts where charged particles fly, by its authors' script (vgsatorras)."""

import json
import os
import runpy
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
from zoo_repository import FOLDER

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
np.random.seed(seed)
os.chdir(tempfile.mkdtemp())
os.makedirs("n_body_system/dataset")
sys.modules.update({name: mock.MagicMock() for name in ("matplotlib", "matplotlib.pyplot")})  # no pictures
make = runpy.run_path(FOLDER + "/n_body_system/dataset/synthetic_sim.py")["ChargedParticlesSim"]
simulation = make(n_balls=5, vel_norm=0.5)
simulation._delta_T = 0.02  # twenty times as coarse, or drawing the flights takes longer than learning them
for part, count in (("train", 200), ("valid", 40), ("test", 100)):
    flights = zip(*[simulation.sample_trajectory(T=210, sample_freq=5) for _ in range(count)])
    for name, values in zip(("loc", "vel", "edges", "charges"), flights):
        np.save(f"n_body_system/dataset/{name}_{part}_charged5_initvel1small.npy", np.stack(values))
sys.argv = ["main_nbody.py", "--no-cuda", "--batch_size=20", "--epochs=31", "--max_training_samples=200"]
runpy.run_path(FOLDER + "/main_nbody.py", run_name="__main__")
with open("n_body_system/logs/exp_1/losess.json") as file:
    print("result", json.load(file)["losess"][-1])
