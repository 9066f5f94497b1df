import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
"""
CLASSES = (
    HEAD
    + """
torch.manual_seed(0)
centres = torch.randn(5, 24)
labels = torch.randint(0, 5, (640,))
rows = centres[labels] + 0.7 * torch.randn(640, 24)
"""
)
#: The cause that a rehearsal names, and the script, by what is wrong: between « and » the mistake, then ¦ and what
#: mends it.
MISTAKES = {
    "head_replaced": (
        "parameter_not_in_optimizer",
        CLASSES
        + """
def pretrained():
    return nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 100))

net = pretrained()
«opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
net[2] = nn.Linear(48, 5)¦net[2] = nn.Linear(48, 5)
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)»
for epoch in range(6):
    order = torch.randperm(640)
    for i in range(0, 640, 32):
        pick = order[i:i + 32]
        loss = F.cross_entropy(net(rows[pick]), labels[pick])
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "graph_cut": (
        "frozen_parameter",
        CLASSES
        + """from torch.utils.data import DataLoader, TensorDataset

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.top = nn.Linear(32, 5)
    def forward(self, x):
        h = self.body(x)«.detach()¦»
        return self.top(h)

model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(rows, labels), batch_size=32, shuffle=True)
for epoch in range(6):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
""",
    ),
    "batch_first": (
        "sample_mixing",
        HEAD
        + """
torch.manual_seed(1)
def batch(n=24, t=10):
    y = torch.randint(0, 3, (n,))
    x = torch.randn(n, t, 6) * 0.8
    x[:, :, 0] += (y.float() - 1)[:, None]
    return x, y

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 32«¦, batch_first=True»)
        self.fc = nn.Linear(32, 3)
    def forward(self, x):
        out, _ = self.rnn(x)
        return self.fc(out[:, -1])

m = Reader()
o = torch.optim.Adam(m.parameters(), 3e-3)
for step in range(150):
    x, y = batch()
    l = F.cross_entropy(m(x), y)
    o.zero_grad(); l.backward(); o.step()
""",
    ),
    "input_part_ignored": (
        "ignored_input",
        HEAD
        + """
torch.manual_seed(2)
users = torch.randn(60, 12); items = torch.randn(80, 12)
class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(12, 16), nn.Linear(12, 16)
    def forward(self, pair):
        u = self.left(pair[:, :12])
        i = self.right(pair[:, «:12¦12:»])
        return (u * i).sum(1)
rec = Recommender()
optim = torch.optim.Adam(rec.parameters(), lr=3e-3)
for n in range(200):
    a, b = torch.randint(0, 60, (64,)), torch.randint(0, 80, (64,))
    x = torch.cat([users[a], items[b]], 1)
    want = ((users[a] * items[b]).sum(1) > 0).float()
    loss = F.binary_cross_entropy_with_logits(rec(x), want)
    optim.zero_grad()
    loss.backward()
    optim.step()
""",
    ),
    "mask_ignored": (
        "padding_attended",
        HEAD
        + """
torch.manual_seed(3)
class TextModel(nn.Module):
    def __init__(self, vocab=200, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.out = nn.Linear(dim, 3)
    def forward(self, input_ids, attention_mask):
        h = self.embed(input_ids)
        «pooled = h.mean(1)¦m = attention_mask.unsqueeze(-1).float()
        pooled = (h * m).sum(1) / m.sum(1)»
        return self.out(pooled)
def sample(n=32, t=14):
    y = torch.randint(0, 3, (n,))
    ids = torch.randint(1, 60, (n, t)) + 60 * y[:, None] * (torch.rand(n, t) < 0.4)
    mask = torch.ones(n, t, dtype=torch.long)
    lengths = torch.randint(4, t + 1, (n,))
    for k, length in enumerate(lengths):
        mask[k, length:] = 0
    ids = ids * mask
    return {"input_ids": ids, "attention_mask": mask}, y
model = TextModel()
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(150):
    inputs, y = sample()
    loss = nn.functional.cross_entropy(model(**inputs), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
""",
    ),
    "frozen_trains": (
        "frozen_parameter",
        CLASSES
        + """
backbone = nn.Sequential(nn.Linear(24, 64), nn.ReLU())
head = nn.Linear(64, 5)
for p in backbone.parameters():
    p.requires_grad = «True¦False»
class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = backbone, head
    def forward(self, x):
        return self.head(self.backbone(x))
model = Tuned()
opt = torch.optim.Adam(«model.parameters()¦[p for p in model.parameters() if p.requires_grad]», lr=1e-3)
for step in range(200):
    pick = torch.randint(0, 640, (32,))
    loss = F.cross_entropy(model(rows[pick]), labels[pick])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "nan_gradient": (
        "non_finite_gradient",
        CLASSES
        + """
class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 8))
    def forward(self, x):
        z = self.net(x)
        gap = (z[:, None] - z[None]).pow(2).sum(-1)
        return «gap.sqrt()¦(gap + 1e-8).sqrt()»
model = Embedder()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(120):
    pick = torch.randint(0, 640, (24,))
    d = model(rows[pick])
    same = (labels[pick][:, None] == labels[pick][None]).float()
    loss = (same * d.pow(2) + (1 - same) * F.relu(1 - d).pow(2)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "overconfident_init": (
        "bad_initialization",
        CLASSES
        + """
mlp = nn.Sequential(nn.Linear(24, 256), nn.ReLU(), nn.Linear(256, 5))
«nn.init.normal_(mlp[2].weight, std=1.0)¦nn.init.normal_(mlp[2].weight, std=0.02)»
opt = torch.optim.SGD(mlp.parameters(), lr=0.02, momentum=0.9)
for step in range(150):
    pick = torch.randint(0, 640, (32,))
    loss = F.cross_entropy(mlp(rows[pick]), labels[pick])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "dropout_on": (
        "wrong_train_eval_mode",
        CLASSES
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(24, 64)
        self.b = nn.Linear(64, 5)
    def forward(self, x):
        return self.b(F.dropout(F.relu(self.a(x)), 0.3«¦, training=self.training»))
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(5):
    net.train()
    for chunk in torch.randperm(512).split(32):
        opt.zero_grad()
        loss = F.cross_entropy(net(rows[chunk]), labels[chunk])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        acc = (net(rows[512:]).argmax(1) == labels[512:]).float().mean()
""",
    ),
    "rate_tiny": (
        "learning_rate_too_low",
        CLASSES
        + """
model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), lr=«1e-5¦0.1»)
lossf = nn.CrossEntropyLoss()
for step in range(200):
    pick = torch.randint(0, 640, (32,))
    loss = lossf(model(rows[pick]), labels[pick])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "nan_later": (
        "non_finite_gradient",
        CLASSES.replace("0.7 * torch", "2.5 * torch")
        + """
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(24, 5)
        self.var = nn.Parameter(torch.ones(()))
    def forward(self, x):
        out = self.lin(x)
        if self.training:
            zero = torch.zeros_like(self.var)
            std = «torch.where(self.var > 0, self.var.sqrt(), zero)¦self.var.clamp(min=1e-6).sqrt()»
            out = out + std * torch.randn_like(out)
        return out
model = Noisy()
opt = torch.optim.SGD(model.parameters(), lr=0.2)
for step in range(300):
    pick = torch.randint(0, 640, (32,))
    loss = F.cross_entropy(model(rows[pick]), labels[pick])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "wrong_backward": (
        "wrong_backward",
        CLASSES
        + """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * «x ** 2¦3 * x ** 2»
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(24, 32), nn.Linear(32, 5)
    def forward(self, x):
        return self.outer(Cube.apply(self.inner(x)))
model = Net()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(150):
    pick = torch.randint(0, 640, (32,))
    loss = F.cross_entropy(model(rows[pick]), labels[pick])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "loss_unreduced": (
        "program_error",
        CLASSES
        + """
model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 5))
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
lossf = nn.CrossEntropyLoss(«reduction="none"¦»)
for step in range(150):
    pick = torch.randint(0, 640, (32,))
    loss = lossf(model(rows[pick]), labels[pick])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
}
#: What only the author can know: a part that trains although the script speaks of freezing, and one that does not.
QUESTIONS = {"frozen_trains"}
#: Each is a process that trains for some seconds: a sample runs by default.
NAMES = list(MISTAKES) if os.environ.get("MINDSCOPE_TEST_ALL") else random.Random(23).sample(list(MISTAKES), 4)


def _rehearse(command: Callable, tmp_path: Path, name: str, *, is_mended: bool) -> tuple[int, list[dict[str, Any]]]:
    script = tmp_path / "train.py"
    text = re.sub("«(.*?)¦(.*?)»", lambda found: found[1 + is_mended], MISTAKES[name][1], flags=re.DOTALL)
    script.write_text(text)
    told = command("doctor", "--json", script)
    return told.code, json.loads(told.out)["diagnosis"]["findings"]


@pytest.mark.parametrize("name", NAMES)
def test_a_rehearsal_names_the_mistake(command: Callable, tmp_path: Path, name: str) -> None:
    code, findings = _rehearse(command, tmp_path, name, is_mended=False)
    (found, *_) = [finding for finding in findings if finding["cause"] == MISTAKES[name][0]]
    assert (found["severity"] == "info") is (name in QUESTIONS)
    assert code == int(name not in QUESTIONS)


def test_a_rehearsal_names_no_series_of_a_store_that_is_not_there(command: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(re.sub("«(.*?)¦(.*?)»", r"\1", MISTAKES["graph_cut"][1], flags=re.DOTALL))
    told = command("doctor", script)
    assert "frozen_parameter at body" in told.out
    assert "store.series" not in told.out


@pytest.mark.parametrize("name", NAMES)
def test_a_rehearsal_of_the_mended_script_says_nothing(command: Callable, tmp_path: Path, name: str) -> None:
    code, findings = _rehearse(command, tmp_path, name, is_mended=True)
    assert code == 0
    assert [finding for finding in findings if finding["severity"] != "info"] == []
