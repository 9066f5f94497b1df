"""What a program has and never reads is told; what is left unread for good reasons is not."""

import sys
import textwrap

import pytest
from mindscope.probe.checks.program_text import own_files
from mindscope.probe.checks.program_text.own_files import own_sources, recorded_sources
from mindscope.probe.checks.program_text.unread_values import unread_values, values_are_read, words_for


def _names(*texts, script="0.py"):
    sources = {f"{number}.py": textwrap.dedent(text) for number, text in enumerate(texts)}
    return [one.name for one in unread_values(sources, script=script)]


ROUTED = """
def forward(self, x):
    top_w, top_i = self.router(x).softmax(-1).topk(2)
    top_w = top_w / top_w.sum(-1, keepdim=True)
    {rest}
"""
SHARPNESS = """
class SAM(torch.optim.Optimizer):
    def first_step(self):
        for p in self.params:
            self.state[p]["e_w"] = p.grad
            p.add_(p.grad)
    def second_step(self):
        {rest}
        self.base.step()
"""
UNREAD = {
    "what an optimizer keeps": (SHARPNESS.format(rest="pass"), "state['e_w']"),
    "weights of experts": (ROUTED.format(rest="return self.mean(x, top_i)"), "top_w"),
    "a mask that a function takes": ("def loss(p, y, mask):\n    return (p - y).mean()\n", "mask"),
    "the end of a transition": ("def learn(b):\n    s, s2, a, r, d = b.sample()\n    return s, a, r, s2\n", "d"),
    "the end, at the top": (
        "class B:\n    def add(self, s, term):\n        self.term[0] = term, s\n"
        "if x:\n    for _ in y:\n        o, act, rew, term = b()\n        f(o, act, rew)\n",
        "term",
    ),
    "a changed copy": (
        "def loss(model, x, t, y):\n    y_in = torch.where(t < 3, 0, y)\n    return model(x, t, y)\n",
        "y_in",
    ),
    "a spread that is not put back": ("def denorm(y, loc, spread):\n    return y + loc\n", "spread"),
    "the action of a value that is learned": (
        "def learn(b):\n    o, act, ret, nxt, disc = b.draw()\n    q = net(o).max(1).values\n"
        "    loss = (ret + disc * net(nxt).max(1).values - q).pow(2).mean()\n    loss.backward()\n",
        "act",
    ),
    "the end of an episode": ("def learn(b):\n    s, a, r, s2, done = b.sample()\n    return s, a, r, s2\n", "done"),
    "lengths of a loader": ("def run(loader):\n    for x, lengths in loader:\n        print(x)\n", "lengths"),
    "an order": ("import torch\ndef run(x):\n    order = torch.randperm(8)\n    return x[:4]\n", "order"),
    "a setting": ("WARMUP_STEPS = 100\nprint(1)\n", "WARMUP_STEPS"),
    "an option": (
        "from argparse import ArgumentParser\np = ArgumentParser()\np.add_argument('--kl-beta')\np.parse_args()\n",
        "kl_beta",
    ),
    "a field of a class of settings": (
        "from dataclasses import dataclass\n@dataclass\nclass Config:\n    width: int = 3\n    gamma: float = 0.9\n"
        "print(Config().width)\n",
        "gamma",
    ),
    "a layer": (
        "class Net(nn.Module):\n    def __init__(self):\n        self.drop = nn.Dropout(0.1)\n"
        "    def forward(self, x):\n        return x\n",
        "self.drop",
    ),
    "a schedule": ("def run(opt):\n    plan = CosineAnnealingLR(opt, 10)\n    return 1\n", "plan"),
    "an update": ("def soft_update(a, b):\n    return a + b\nprint(1)\n", "soft_update"),
    "a term": ("def loss(x):\n    kl = -0.5 * x.sum()\n    return x.mean()\n", "kl"),
    "a part of what a model returns": (
        "def step(model, x):\n    y, aux = model(x)\n    return y\n",
        "aux",
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_nothing_reads_is_told(name):
    text, expected = UNREAD[name]
    assert expected in _names(text)


@pytest.mark.parametrize(
    "text",
    [
        "def loss(p, y, _mask):\n    return (p - y).mean()\n",
        "def forward(x, mask=None):\n    return x\n",  # callers may give it, and none does
        "def learn(b):\n    done = b.done\n    def inner():\n        return done\n    return inner\n",
        "def run(env):\n    s, r, done, info = env.step(0)\n    return s\n",
        "def batch(b):\n    x, y, d = b\n    return x, y\n",
        "def attend(x):\n    y, weights = attention(x)\n    return y\n",
        "def run():\n    train_loss = train_epoch()\n    return 1\n",
        "def backward(ctx, mask):\n    return ctx\n",
        SHARPNESS.format(rest="[p.sub_(self.state[p]['e_w']) for p in self.params]"),
        SHARPNESS.format(rest="[p.sub_(self.state[p].pop('e_w')) for p in self.params]"),
        ROUTED.format(rest="return self.mean(x, top_i, top_w)"),
        ROUTED.format(rest="return [self.mean(x, top_i, w) for w in top_w]"),
        "def batches(data, d):\n    for x, y in data:\n        x, y = x.to(d), y.to(d)\n        yield x\n",
        "def report(x):\n    n = 1\n    n = n + 1\n    return x\n",
        "class Base:\n    def loss(self, mask):\n        raise NotImplementedError\n",
        "LR = 0.1\nexec('print(LR)')\n",
        "p = ArgumentParser()\np.add_argument('--gamma')\nprint(vars(p.parse_args()))\n",
        "class Net(nn.Module):\n    def __init__(self):\n        self.drop = nn.Dropout(0.1)\n"
        "    def forward(self, x):\n        return getattr(self, 'drop')(x)\n",
        "for epoch, perm in enumerate(x):\n    print(perm)\n",
        "class Net(nn.Module):\n    def __init__(self, n):\n        if n < 1:\n            self.none = nn.Identity()\n",
        "def act(self, x):\n    dist = self.dist(x)\n    entropy = dist.entropy().mean()\n    return dist.sample()\n",
        "def learn(data):\n    for b in data:\n        s, a, r, done_mask, adv = b\n        step(s, a, adv)\n",
        "def learn(target, b):\n    s, a, r, s_next, done = b\n    return value(s, a) - target\n",
        "SHAPES, COLOURS, LENGTH = 8, 8, 10\nMASK = 3\nprint(SHAPES * COLOURS)",
        "def broken(:",
    ],
)
def test_what_is_left_unread_for_good_reasons_is_not(text):
    assert _names(text) == []


def test_what_another_file_reads_is_read():
    keeps = "class Net(nn.Module):\n    def __init__(self):\n        self.norm = nn.LayerNorm(3)\n"
    assert _names(keeps) == ["self.norm"]
    assert _names(keeps, "def use(net, x):\n    return net.norm(x)\n") == []


def test_only_the_scripts_own_functions_must_be_called():
    helper = "def normalize(x):\n    return x\n"
    assert _names("print(1)\n", helper) == []
    assert _names(helper) == ["normalize"]


def test_the_words_say_where():
    (found,) = unread_values({"/a/train.py": "def f(x, pad_mask):\n    return x\n"})
    assert words_for(found) == "pad_mask, a value of f (train.py:1), is read by nothing"
    result = values_are_read({"/a/train.py": "def f(x, pad_mask):\n    return x\n"})
    assert (result.outcome, result.subject) == ("broken", "pad_mask")
    assert values_are_read({"/a/train.py": "print(1)\n"}).outcome == "held"


def test_the_files_of_a_program_are_the_script_and_what_lies_beside_it(tmp_path, monkeypatch):
    script, beside, foreign = (tmp_path / name for name in ("train.py", "data/own.py", "site-packages/other.py"))
    for path in (script, beside, foreign):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n", encoding="utf-8")
    modules = {name: type(sys)(name) for name in ("__main__", "own", "other")}
    for module, path in zip(modules.values(), (script, beside, foreign), strict=True):
        module.__file__ = str(path)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert own_sources() == (str(script), {str(script): "x = 1\n", str(beside): "x = 1\n"})
    modules["__main__"].__file__ = None
    assert own_sources() == ("", {})


@pytest.mark.parametrize(("mark", "files"), [("pyproject.toml", 2), (".git", 2), ("notes.txt", 1)])
def test_a_script_in_a_folder_of_a_project_has_the_projects_modules(tmp_path, monkeypatch, mark, files):
    script, model = tmp_path / "scripts" / "train.py", tmp_path / "model.py"
    script.parent.mkdir()
    (tmp_path / mark).touch()
    for name, path in (("__main__", script), ("model", model)):
        path.write_text("x = 1\n", encoding="utf-8")
        module = type(sys)(name)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, name, module)
    found, texts = own_sources()
    assert (found, len(texts)) == (str(script), files)
    recorded = recorded_sources(found, texts)
    assert list(recorded["files"]) == ["train.py", "../model.py"][:files]


def test_a_project_of_too_many_files_is_read_beside_the_script_alone(tmp_path, monkeypatch):
    script = tmp_path / "scripts" / "train.py"
    script.parent.mkdir()
    (tmp_path / ".git").mkdir()
    paths = [script, *(tmp_path / f"part_{number}.py" for number in range(45))]
    for number, path in enumerate(paths):
        path.write_text("x = 1\n", encoding="utf-8")
        module = type(sys)("part")
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, f"part_{number}" if number else "__main__", module)
    assert own_sources() == (str(script), {str(script): "x = 1\n"})


def test_what_functions_keep_in_global_names_is_put_back(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(
        "calls = 3\nkept = []\ndef forward(x):\n    global calls, kept\n    calls += 1\n", encoding="utf-8"
    )
    main = type(sys)("__main__")
    main.__file__, main.calls, main.kept = str(script), 3, []
    monkeypatch.setitem(sys.modules, "__main__", main)
    own_files._global_names.cache_clear()
    with own_files.same_globals():
        main.calls = 7
        main.kept = kept = [1]
    assert main.calls == 3
    assert main.kept is kept  # what may hold results of others is left alone


def test_what_a_library_leaves_unread_is_left_over():
    layers = "".join(f"class L{at}(nn.Module):\n    pass\n" for at in range(12))
    layer = "class A(nn.Module):\n    def __init__(self, dropout):\n        self.dropout = dropout\n"
    assert _names("from layers import A\n", layer) == ["self.dropout"]
    assert _names("from layers import A\n", layer + layers) == []


def test_a_setting_that_is_kept_as_well_as_used_is_no_leftover():
    layer = "class A(nn.Module):\n    def __init__(self, dropout):\n        self.dropout = dropout\n{more}"
    assert _names(layer.format(more="")) == ["self.dropout"]
    assert _names(layer.format(more="        self.drop = nn.Dropout(dropout)\n    f = A.drop\n")) == []


def test_an_evaluation_that_is_given_the_preparation_of_inputs_uses_it():
    program = "def report(model, source, {name}):\n    return model({inputs})\nprint(report(m, s, {name}))\n"
    assert _names(program.format(name="prep", inputs="source.draw(4)")) == ["prep"]
    assert _names(program.format(name="prep", inputs="prep(source.draw(4))")) == []
    assert _names(program.format(name="norm_layer", inputs="source.draw(4)")) == []
    method = "class Block:\n    def forward(self, x, norm):\n        return x\nprint(Block().forward(1, 2))\n"
    assert _names(method) == []


SPLIT = (
    "idx = torch.randperm(900)\ntrain, test = {parts}\nfor epoch in range(9):\n"
    "    loss = F.cross_entropy(model(x, A)[{rows}], y[{rows}])\n    {step}\nprint(model(x, A)[test])\n"
)


@pytest.mark.parametrize("parts", ["idx[:200], idx[200:]", "split(idx)"])
def test_the_part_that_is_for_training_is_what_is_trained_on(parts):
    assert _names(SPLIT.format(parts=parts, rows="idx", step="loss.backward()")) == ["train"]
    assert _names(SPLIT.format(parts=parts, rows="train", step="loss.backward()")) == []
    assert _names(SPLIT.format(parts=parts, rows="idx", step="print(loss)")) == []  # which trains nothing


STEP = "def update(net, batch, gamma):\n    {made}\n    loss = net({used})\n    loss.backward()\nupdate(n, b, 0.9)\n"


@pytest.mark.parametrize(
    ("made", "used", "unread"),
    [
        ("s, a, r, next_obs = batch", "s, a, r, gamma", ["next_obs"]),
        ("s, a, r, next_obs = batch", "s, a, r, next_obs, gamma", []),
        ("s, a, r, next_obs = env.step(batch)", "s, a, r, gamma", []),  # it acts, and learns later
        ("inputs, labels = mask_tokens(batch)", "batch, labels, gamma", ["inputs"]),
        ("inputs, labels = mask_tokens(batch)", "inputs, labels, gamma", []),
        ("inputs, labels = next(batch)", "labels, gamma", []),
        ("q, index = net.quantize(batch)", "index, gamma", ["q"]),
        ("hypers = [p for name, p in net.named_parameters() if 'x' in name]", "gamma", ["hypers"]),
        ("count = sum(p.numel() for p in net.parameters())", "gamma", []),
        ("sx = Standardiser().fit(batch)", "batch, gamma", ["sx"]),
        ("model = LinearRegression().fit(batch)", "batch, gamma", []),
    ],
)
def test_what_a_training_makes_for_its_step_is_used(made, used, unread):
    assert _names(STEP.format(made=made, used=used)) == unread


def test_a_loss_of_the_script_reads_what_it_is_given():
    program = "def elbo(f, y, total{more}):\n    return (f - y).sum()\nprint(elbo(f, y, 4{given}))\n"
    assert _names(program.format(more="", given="")) == ["total"]
    assert _names(program.format(more=", epoch", given=", 2").replace("sum()", "sum() * total")) == []
    assert _names("import own\nprint(own.elbo(f, y, 4))\n", program.format(more="", given="")) == []


def test_a_curve_that_is_never_filled_and_a_mask_of_sampling_are_left_over():
    assert _names("loss_train_record = list([])\naux_losses = []\nprint(1)\n") == []
    loop = "    for _ in range(3):\n        log_p, mask = inner(x)\n    return log_p\n"
    unpacked = f"def {{name}}(inner, x):\n{loop}{{name}}(1, 2)\n"
    assert _names(unpacked.format(name="sample_many")) == []
    assert _names(unpacked.format(name="attend")) == ["mask"]


FULL = "class Full(nn.Module):\n    def forward(self, q, k, mask):\n        return (q @ k + mask).softmax(-1)\n"
PLAIN = "class Plain(nn.Module):\n    def forward(self, q, k, mask):\n        return q @ k\n"
BLOCK = "class Block(nn.Module):\n    def forward(self, q, k, mask):\n        return {inside}(q)(q, k, mask)\n"


def test_a_method_takes_what_another_needs_that_could_stand_in_its_place():
    assert _names(PLAIN) == ["mask"]
    assert _names(FULL + PLAIN) == []
    assert _names(PLAIN + BLOCK.format(inside="Plain")) == ["mask"]  # which hands it on
    between = BLOCK.format(inside="Plain").replace("k, mask", "k, m, mask")
    assert _names(PLAIN + between + BLOCK.format(inside="Block").replace("Block(nn", "Net(nn")) == ["mask"]


def test_what_may_be_left_over_is_counted_behind_what_else_is_unread():
    option = "p = ArgumentParser()\np.add_argument('--kl-beta')\np.parse_args()\n"
    masked = "def loss(p, mask):\n    return p.mean()\nloss(1, 2)\n"
    alone = values_are_read({"0.py": option}, script="0.py")
    both = values_are_read({"0.py": option + masked}, script="0.py")
    beside = values_are_read({"0.py": "print(1)\n", "1.py": masked}, script="0.py")
    assert (alone.numbers, alone.subject) == ({"values": 1.0, "leftovers": 1.0}, "kl_beta")
    assert (both.numbers, both.subject) == ({"values": 2.0, "leftovers": 1.0}, "mask")
    assert beside.numbers == {"values": 1.0, "leftovers": 1.0}


def test_a_plan_of_the_rate_is_no_leftover_whatever_its_name():
    result = values_are_read(
        {"0.py": "def run(opt):\n    cosine = CosineAnnealingLR(opt, 10)\nrun(1)\n"}, script="0.py"
    )
    assert result.numbers == {"values": 1.0, "leftovers": 0.0}
    assert "cosine, a setting of run" in result.counterexample
