"""An attention model learns short round trips by REINFORCE with a rollout baseline, by wouterkool's script."""

import os
import runpy
import sys
import tempfile
from unittest import mock

import torch
from zoo_repository import FOLDER

sys.modules["tensorboard_logger"] = mock.MagicMock()
import train  # noqa: E402

train.DataLoader = lambda *args, num_workers=0, **named: torch.utils.data.DataLoader(*args, **named)  # one process
validate, lengths = train.validate, []
train.validate = lambda *args: lengths.append(validate(*args)) or lengths[-1]  # note the lengths it prints
os.chdir(tempfile.mkdtemp())
options = "--problem tsp --graph_size 10 --baseline rollout --batch_size 64 --epoch_size 3264 --val_size 300"
options += " --n_epochs 4 --embedding_dim 64 --hidden_dim 64 --n_encode_layers 1 --lr_model 1e-3"
options += " --no_tensorboard --no_progress_bar --no_cuda"
sys.argv = ["run.py", *options.split(), "--seed", sys.argv[1] if len(sys.argv) > 1 else "0"]
runpy.run_path(FOLDER + "/run.py", run_name="__main__")
print("result", lengths[-1].item())
