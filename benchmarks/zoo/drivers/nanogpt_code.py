"""A small GPT learns to write the letters of nanoGPT's own source code, by karpathy's nanoGPT training script."""

import os
import pickle
import runpy
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from zoo_repository import FOLDER

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
text = "".join(Path(FOLDER, name).read_text() for name in ("README.md", "train.py", "model.py", "sample.py"))
text = text.encode("ascii", "ignore").decode()
letters = sorted(set(text))
data, out = tempfile.mkdtemp(), tempfile.mkdtemp()
ids = np.array([letters.index(letter) for letter in text], dtype=np.uint16)
blocks = np.array_split(ids, 40)  # every tenth block of text is kept for validation
np.concatenate([block for i, block in enumerate(blocks) if i % 10]).tofile(data + "/train.bin")
np.concatenate(blocks[::10]).tofile(data + "/val.bin")
with open(data + "/meta.pkl", "wb") as file:
    pickle.dump({"vocab_size": len(letters)}, file)
seed_all = torch.manual_seed
torch.manual_seed = lambda fixed: seed_all(fixed + seed)  # the script fixes its seed at 1337
os.chdir(FOLDER)  # the script reads its configurator from there
options = f"--dataset={data} --out_dir={out} --device=cpu --dtype=float32 --compile=False --dropout=0.0"
options += " --n_layer=2 --n_head=4 --n_embd=64 --block_size=64 --batch_size=12 --gradient_accumulation_steps=1"
options += " --learning_rate=2e-3 --min_lr=2e-4 --warmup_iters=50 --max_iters=600 --lr_decay_iters=600 --beta2=0.99"
sys.argv = ["train.py", *options.split(), "--eval_interval=300", "--eval_iters=20", "--log_interval=100"]
script = runpy.run_path("train.py", run_name="__main__")
print("result", script["losses"]["val"].item())
