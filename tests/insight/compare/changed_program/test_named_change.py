"""What was done to a program, as its smallest changed expressions, and the cause that they speak of."""

import os
import subprocess
import sys

import pytest
from mindscope.insight.compare.changed_program import named_change, named_evaluation
from mindscope.insight.compare.changed_program.edits import edits_between

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F


class Tagger(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.hidden = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(width, 9)

    def forward(self, x):
        h = self.embedding(x)
        weights = torch.softmax(h @ h.transpose(1, 2), dim=-1)
        h = self.norm(weights @ h)
        for layer in self.hidden:
            h = torch.relu(layer(h))
        return self.out(self.drop(h))


def collate(batch):
    words = torch.stack([sample[0] for sample in batch])
    tags = torch.stack([sample[1] for sample in batch])
    order = words.ne(0).sum(1).argsort()
    return words[order], tags[order]


def critic_targets(reward, done, next_value):
    return reward + 0.99 * (1 - done) * next_value.detach()


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        right = [(model(words).argmax(-1) == tags).float().mean() for words, tags in loader]
    model.train()
    return sum(right) / len(right)


def features(values):
    mean, std = values.mean(0), values.std(0) + 1e-6
    return (values - mean) / std


model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
for epoch in range(10):
    for words, tags in train_loader:
        optimizer.zero_grad()
        logits = model(words)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=0)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    print(evaluate(model, test_loader))
"""

#: What is exchanged, and the cause that it speaks of.
CHANGES = {
    "gradients are not cleared": ("        optimizer.zero_grad()\n", "", "missing_zero_grad"),
    "gradients are cleared before the step": (
        "        loss.backward()\n",
        "        loss.backward()\n        optimizer.zero_grad()\n",
        "missing_optimizer_step",
    ),
    "no step": ("        optimizer.step()\n", "", "missing_optimizer_step"),
    "the schedule is stepped by the epoch": (
        "        scheduler.step()\n    print",
        "    scheduler.step()\n    print",
        "schedule_error",
    ),
    "the schedule ends too early": ("T_max=1000", "T_max=10", "schedule_error"),
    "a rate of a hundred": ("lr=1e-3", "lr=1e-1", "learning_rate_too_high"),
    "a product is a larger rate": ("lr=1e-3", "lr=100 * 1e-3", "learning_rate_too_high"),
    "a smaller rate": ("lr=1e-3", "lr=1e-3 / 500", "learning_rate_too_low"),
    "more decay": ("weight_decay=0.01", "weight_decay=5.0", "weight_decay_too_high"),
    "another epsilon": ("weight_decay=0.01", "weight_decay=0.01, eps=1.0", "optimizer_state_stale"),
    "plain descent": ("torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)",
                      "torch.optim.SGD(model.parameters(), lr=1e-3)", "learning_rate_too_low"),
    "a part of the parameters": ("W(model.parameters()", "W(model.out.parameters()", "parameter_not_in_optimizer"),
    "a layer that is made later": (
        "scheduler = torch",
        "model.out = nn.Linear(32, 9)\nscheduler = torch",
        "parameter_not_in_optimizer",
    ),
    "a plain list": (
        "nn.ModuleList([nn.Linear(width, width) for _ in range(3)])",
        "[nn.Linear(width, width) for _ in range(3)]",
        "parameter_not_in_optimizer",
    ),
    "a frozen layer": ("optimizer = torch", "model.out.requires_grad_(False)\noptimizer = torch", "frozen_parameter"),
    "a layer that is cut off": ("h = self.embedding(x)", "h = self.embedding(x).detach()", "frozen_parameter"),
    "a lower limit": ("model.parameters(), 1.0)", "model.parameters(), 1e-4)", "clipping_to_nothing"),
    "no limit": ("        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "", "exploding_gradient"),
    "the loss is climbed": ("loss.backward()", "(-loss).backward()", "wrong_loss_sign"),
    "labels of others": ("tags[order]", "tags", "uninformative_labels"),
    "labels are rolled": ("tags.flatten(),", "tags.flatten().roll(1),", "uninformative_labels"),
    "softmax twice": ("self.out(self.drop(h))", "self.out(self.drop(h)).softmax(-1)", "loss_input_domain"),
    "softmax over the samples": ("dim=-1", "dim=0", "sample_mixing"),
    "no activation": ("torch.relu(layer(h))", "layer(h)", "missing_nonlinearity"),
    "a saturating activation": ("torch.relu(layer(h))", "torch.sigmoid(layer(h))", "vanishing_gradient"),
    "most units dropped": ("nn.Dropout(0.1)", "nn.Dropout(0.9)", "dropout_too_high"),
    "padding is scored": (", ignore_index=0)", ")", "padding_counted"),
    "other first weights": (
        "optimizer = torch",
        "nn.init.constant_(model.out.weight, 0.1)\noptimizer = torch",
        "bad_initialization",
    ),
    "a derivative of the target": ("next_value.detach()", "next_value", "gradient_into_target"),
    "the end upside down": ("(1 - done)", "done", "stale_target"),
    "plain features": ("return (values - mean) / std", "return values", "unnormalized_input"),
    "no evaluation mode": ("    model.eval()\n", "", "wrong_train_eval_mode"),
    "test data of the training": ("evaluate(model, test_loader)", "evaluate(model, train_loader)", "data_leak"),
    "another formula": ("sum(right) / len(right)", "sum(right) * len(right)", "formula_error"),
    "a limit under a new name": (
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "limit = 1e-4\n        nn.utils.clip_grad_norm_(model.parameters(), limit)",
        "clipping_to_nothing",
    ),
    "a step under a condition": (
        "        optimizer.step()\n",
        "        if not loss.isfinite():\n            optimizer.step()\n",
        "missing_optimizer_step",
    ),
    "a step that is not called": ("optimizer.step()", "optimizer.step", "missing_optimizer_step"),
    "an optimizer for each epoch": (
        "for epoch in range(10):\n",
        "for epoch in range(10):\n    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)\n",
        "optimizer_state_stale",
    ),
    "a mode behind the return": (
        "    model.train()\n    return sum(right) / len(right)",
        "    return sum(right) / len(right)\n    model.train()",
        "wrong_train_eval_mode",
    ),
    "weights that are not used": ("h = self.norm(weights @ h)", "h = self.norm(h)", "unused_value"),
    "an input that is not used": ("h = self.embedding(x)", "h = self.embedding.weight", "ignored_input"),
    "other element types": ("words.ne(0).sum(1)", "words.ne(0).long().sum(1)", ""),
    "a tie that is a copy": (
        "self.out = nn.Linear(width, 9)\n",
        "self.out = nn.Linear(width, 9)\n        self.out.weight = nn.Parameter(self.embedding.weight.clone())\n",
        "shared_parameter_error",
    ),
    "a seed in the loop": (
        "        optimizer.zero_grad()\n",
        "        torch.manual_seed(0)\n        optimizer.zero_grad()\n",
        "reseeded_generator",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "cause"), CHANGES.values(), ids=CHANGES)
def test_a_change_speaks_of_its_cause(before, after, cause):
    assert PROGRAM.count(before) == 1
    assert named_change({"": PROGRAM}, {"": PROGRAM.replace(before, after)}) == cause


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", "import torch  # the engine\n"),
        ("    print(evaluate", "    print(epoch)\n    print(evaluate"),
        ("        logits = model(words)\n", "        logits = model(\n            words,\n        )\n"),
        ("class Tagger(nn.Module):\n", 'class Tagger(nn.Module):\n    """Tags words."""\n\n'),
    ],
)
def test_what_changes_no_value_speaks_of_nothing(before, after):
    assert named_change({"": PROGRAM}, {"": PROGRAM.replace(before, after)}) == ""


@pytest.mark.parametrize("other", ["", "def (", "x = " + "(" * 400 + ")" * 400, "\0"])
def test_a_text_that_cannot_be_read_speaks_of_nothing(other):
    assert named_change({"": PROGRAM}, {"": other}) == named_evaluation({"": PROGRAM}, {"": other}) == ""


def test_the_order_of_changes_does_not_depend_on_the_process():
    lines = [f"step_{at}.zero_grad()" for at in range(12)]
    good = "\n".join([*lines, "for x in y:", "    f(x)"])
    other = "\n".join(["f(x)", "for x in y:", *(f"    {line}" for line in lines)])
    told = [edit.texts for edit in edits_between(good, other)]
    script = (
        "from mindscope.insight.compare.changed_program.edits import edits_between\n"
        f"print([edit.texts for edit in edits_between({good!r}, {other!r})])"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        said = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert said.stdout.strip() == repr(told)


def test_another_program_is_no_change():
    other = "\n".join(f"value_{at} = optimizer.zero_grad(set_to_none={at})" for at in range(60))
    assert edits_between(PROGRAM, other) == []
    assert named_change({"": PROGRAM}, {"": other}) == ""


def test_a_change_in_another_file_of_the_program_counts():
    good = {"": "import model", "model.py": PROGRAM}
    assert named_change(good, {**good, "model.py": PROGRAM.replace("lr=1e-3", "lr=1.0")}) == "learning_rate_too_high"
    assert named_change(good, {"": "import model"}) == ""


def test_what_a_new_function_does_is_part_of_the_change():
    helper = (
        "def prepared(model):\n    for p in model.parameters():\n        p.requires_grad = False\n    return model\n"
    )
    changed = PROGRAM.replace("model = Tagger()", "from helper import prepared\nmodel = prepared(Tagger())")
    assert named_change({"": PROGRAM}, {"": changed, "helper.py": helper}) == "frozen_parameter"


def test_an_evaluation_that_differs_is_named_only_by_what_evaluates():
    no_mode = PROGRAM.replace("    model.eval()\n", "")
    assert named_evaluation({"": PROGRAM}, {"": no_mode}) == "wrong_train_eval_mode"
    assert named_evaluation({"": PROGRAM}, {"": PROGRAM.replace("lr=1e-3", "lr=1.0")}) == ""
    assert named_evaluation({"": no_mode}, {"": PROGRAM}) == ""


def described(before, after):
    return [(edit.kind, *edit.texts, edit.place) for edit in edits_between(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "edits"),
    [
        ("y = f(a, b=1)", "y = f(a, b=2)", [("replaced", "1", "2", "b")]),
        ("y = f(a)", "y = f(a, b=2)", [("added", "", "2", "b")]),
        ("y = f(a, c)", "y = f(c, a)", [("replaced", "(a, c)", "(c, a)", "order")]),
        ("y = g(x)", "y = g(x).detach()", [("replaced", "g(x)", "g(x).detach()", "y")]),
        ("y = a + b * c", "y = a + b * d", [("replaced", "c", "d", "right")]),
        ("y = a - b", "y = b - a", [("replaced", "a - b", "b - a", "y")]),
        ("x, y = f(x), f(y)", "x = f(x)", [("removed", "f(y)", "", "y")]),
        ("def f(width=3):\n    return width", "def f(width=5):\n    return width", [("replaced", "3", "5", "width")]),
        ("for i in a:\n    f()\n    g()", "for i in a:\n    f()\ng()", [("moved", "g()", "g()", "")]),
        ("with h():\n    f()", "f()", [("removed", "with h():\n    f()", "", "")]),
        ("a = 1\nb = 2", "a = 1\nb = 2", []),
    ],
)
def test_an_edit_is_the_smallest_part_that_differs(before, after, edits):
    assert described(before, after) == edits


def test_a_name_that_one_program_alone_has_stands_for_its_value():
    assert described("y = f(a * b)", "scaled = a * b\ny = f(scaled)") == []
    assert described("scaled = a * b\ny = f(scaled)", "y = f(a * c)") == [("replaced", "b", "c", "right")]
    assert described("y = f(a)", "k = 1\nk = 2\ny = f(k)") != []


def test_statements_behind_a_return_are_gone():
    assert described("def f():\n    g()\n    return 1", "def f():\n    return 1\n    g()") == [
        ("removed", "g()", "", "")
    ]


def test_edits_there_and_back_are_the_same_ones():
    changes = [PROGRAM.replace(before, after) for before, after, _ in CHANGES.values()]
    for changed in changes:
        there, back = edits_between(PROGRAM, changed), edits_between(changed, PROGRAM)
        assert sorted(edit.texts for edit in there) == sorted(edit.texts[::-1] for edit in back)


@pytest.mark.parametrize(
    ("good", "other", "cause"),
    [
        ("layers = Decoder(dim=9, depth=2)", "layers = Encoder(dim=9, depth=2)", "data_leak"),
        (
            "def points(n):\n    x, y = load(n)\n    x = (x / 54 - 1) * 4\n    y = (y / 48 - 1) * 4\n    return x, y",
            "def points(n):\n    x, y = load(n)\n    return x, y",
            "unnormalized_input",
        ),
        (
            "class Memory(nn.Module):\n    def write(self, w):\n        self.prev = self.memory\n"
            "        self.memory = w",
            "class Memory(nn.Module):\n    def write(self, w):\n        self.prev = self.memory.detach()\n"
            "        self.memory = w",
            "wrong_backward",
        ),
    ],
)
def test_what_was_changed_in_a_repository_speaks_of_its_cause(good, other, cause):
    assert named_change({"": good}, {"": other}) == cause
