"""A watched rank makes the collectives of its program, no others, and gets the same values."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch.distributed", reason="PyTorch is not installed")

#: The loss is reduced between the backward pass and the step, and rank 1 makes two steps a round: a collective of ours
#: would meet another one on the other rank. `BatchNorm` of all ranks makes collectives in the model's own forward.
SCRIPT = """
import json, sys, torch, torch.distributed as dist
from torch import nn
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)

class Shared(nn.Module):
    def forward(self, x):
        mean = x.detach().mean(0)
        if KIND == "model":
            dist.all_reduce(mean)
        return x - mean / dist.get_world_size()

KIND = sys.argv[2]
net = nn.Sequential(nn.Linear(32, 16), Shared(), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), 3e-3)
draws = torch.Generator().manual_seed(rank)
weights, seen = torch.arange(32.0) / 32, []
for _ in range(45):
    for turn in range(1 + rank * (KIND == "loss")):
        x = torch.randn(64, 32, generator=draws)
        loss = nn.functional.mse_loss(net(x), (x @ weights)[:, None])
        optimizer.zero_grad()
        loss.backward()
        if KIND == "model" or turn == rank:
            mean = loss.detach().reshape(1).clone()
            dist.all_reduce(mean)
            seen.append([mean.item(), dist.group.WORLD._get_sequence_number_for_group()])
        optimizer.step()
with open(f"{sys.argv[1]}.{rank}", "w") as file:
    json.dump(seen, file)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("kind", ["loss", "model"])
def test_checks_make_no_collectives(tmp_path, kind):
    (tmp_path / "train.py").write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    watched = ["-m", "mindscope", "run", "--store", "runs", "--", "train.py"]
    for name, words in (("plain", ["train.py"]), ("watched", watched)):
        done = subprocess.run(
            [*launch, *words, name, kind], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert "a check failed" not in done.stderr
    for rank in (0, 1):
        plain, seen = (json.loads((tmp_path / f"{name}.{rank}").read_text()) for name in ("plain", "watched"))
        assert seen == plain
