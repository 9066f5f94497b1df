"""What texts of programs that train well have, and what looks like a fault there: nothing is said, or it is asked."""

import textwrap

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions
from mindscope.probe.checks.program_text.unread_values import unread_values

TWINS = (
    "class Graph(nn.Module):\n    def forward(self, i):\n        v1 = self.emb1(i)\n        v2 = self.emb1(i)\n"
    "        return v1 @ v2.T\n{more}"
)
KEPT = (
    "state = None\nnet = Net()\nif state is not None:\n    net.load_state_dict(state)\n"
    "for x in data:\n    step(net, x)\n    state = net.state_dict()"
)
VALIDATION = "{val}val_loader = DataLoader(test_set)\nvalid(val_loader, val_set)"
RETURNS = (
    "def returns(r, gamma):\n    {name} = torch.zeros(len(r), dtype=torch.{kind})\n"
    "    {name}[0] = r[0] + gamma * r[1]\n    return {name}"
)
FISHER = "for p, d in pairs:\n    fisher_norm += {value}"
NUMBER = "def main():\n    {name} = np.random.randint(1, 1000)\n    train()"
OTHER_CLASS = "class Directed(nn.Module):\n    def forward(self, i):\n        return self.emb1(i) @ self.emb2(i).T\n"


def _said(text):
    return bool(contradictions({"a.py": text}))


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        (TWINS.format(more=OTHER_CLASS), False),  # a class without a second one
        (TWINS.format(more="        self.emb2 = None\n"), True),
        ("bn1 = nn.BatchNorm1d(8)\nbn2 = nn.BatchNorm1d(8)\nbn = nn.BatchNorm2d(8)", False),
        (KEPT, False),  # a new network is given nothing of its own
        ("for fold in folds:\n" + textwrap.indent(KEPT.partition("net = Net()\n")[2], "    "), True),
        (VALIDATION.format(val="val_set = 1\n"), True),
        (VALIDATION.format(val="").replace(", val_set", ""), False),  # the test data are all that is held out
        (
            VALIDATION.format(val="").replace(
                "valid(val_loader, val_set)", "for val_inputs in val_loader:\n    valid(val_inputs)"
            ),
            False,
        ),
        (RETURNS.format(name="adv", kind="int64"), True),
        (RETURNS.format(name="adv_found", kind="uint8"), False),  # a mask of adversarial samples
        (FISHER.format(value="p.grad * d"), True),
        (FISHER.format(value="(p.grad * d).sum()"), False),  # a form of a direction
        (NUMBER.format(name="shift"), True),
        (NUMBER.format(name="model_nr"), False),
    ],
)
def test_a_formula_that_looks_wrong_and_is_right(text, is_said):
    assert _said(text) == is_said


UNPACKED = "def {name}(log):\n    {values} = {by}(log)\n    return env, actions\n{name}('x')\n"
DRAWN = "def fit(data):\n    for s, actions, {more}s2, dones in data:\n        learn(s, actions, {more}s2)\nfit(1)\n"
HEAD = "class Head(nn.Module):\n    def __init__(self):\n        self.{name} = {made}\n"


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("def fit(x):\n    best_val_loss = float('inf')\n    return x\nfit(1)\n", []),
        ("def fit(x):\n    kl_loss = divergence(x)\n    return x\nfit(1)\n", ["kl_loss"]),
        ("def fit(x):\n    done = True\n    return x\nfit(1)\n", []),
        ("def fit(x):\n    loss_weight = [1.0, 1.0]\n    return x\nfit(1)\n", []),
        ("def fit(x):\n    loss_weight = [1.0, 0.1]\n    return x\nfit(1)\n", ["loss_weight"]),
        (UNPACKED.format(name="fit", values="actions, done, env, obs", by="load_policy"), []),
        (DRAWN.format(more="r, "), ["dones"]),
        (DRAWN.format(more=""), []),  # no reward, so no value that ends with an episode
        ("def predict(obs, done):\n    return net(obs)\npredict(1, 2)\n", []),
        (HEAD.format(name="generation", made="GenerationConfig()"), []),
        (HEAD.format(name="generation", made="SimpleNamespace(top_p=0.9)"), []),
        (HEAD.format(name="act", made="nn.ReLU()"), ["self.act"]),
    ],
)
def test_a_value_that_is_left_unread_and_was_for_nothing(text, unread):
    assert [one.name for one in unread_values({"a.py": text}, script="a.py")] == unread


@pytest.mark.parametrize(
    ("text", "is_asked"),
    [
        (HEAD.format(name="act", made="nn.ReLU()"), False),
        (HEAD.format(name="sigmoid", made="nn.Sigmoid()"), True),  # the loss takes scores
        ("def fit(x):\n    loss_function = nn.NLLLoss()\n    return x\nfit(1)\n", True),  # the model brings its own
        ("def fit(x, w):\n    loss_function = nn.NLLLoss(w)\n    return x\nfit(1, 2)\n", False),
    ],
)
def test_what_is_left_over_where_all_is_well_is_asked(text, is_asked):
    (found,) = unread_values({"a.py": text}, script="a.py")
    assert found.is_leftover == is_asked


def test_in_a_program_that_leaves_much_over_nothing_of_it_is_a_trace():
    masked = "def loss(p, mask):\n    return p.mean()\nloss(1, 2)\n"
    option = "p.add_argument('--{}')\n"
    options = [option.format(name) for name in ("kl-beta", "warmup", "ema-decay", "clip")]
    few, many = masked + "".join(options[:3]), masked + "".join(options)
    assert sum(one.is_leftover for one in unread_values({"a.py": few}, script="a.py")) == 3
    assert all(one.is_leftover for one in unread_values({"a.py": many}, script="a.py"))
