"""A small transformer learns addition modulo 31 from part of the table, by danielmamay's grokking trainer."""

import argparse
import sys
import types

import torch
from zoo_repository import FOLDER

notes = []
fake = types.SimpleNamespace(run=True, log=lambda values, step: print(step, values) or notes.append(values))
fake.init = lambda project, config: setattr(fake, "config", argparse.Namespace(**config))
sys.modules["wandb"] = fake  # no account: keep its notes here
sys.path.insert(0, FOLDER + "/grokking")
from training import main  # noqa: E402

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
settings = {"operation": "x+y", "prime": 31, "training_fraction": 0.8, "num_layers": 1, "dim_model": 64, "num_heads": 4}
settings |= {"batch_size": 128, "learning_rate": 1e-3, "weight_decay": 1, "num_steps": 1501, "device": "cpu"}
main(argparse.Namespace(**settings))
print("result", sum(note["validation/loss"] for note in notes[-5:]) / 5)  # it jumps between steps, by its design
