"""Results that a program computes and drops are told; statements that do something are not."""

import pytest
from mindscope.probe.checks.program_text.discarded_results import discarded_results, results_are_used

DROPPED = {
    "a mask": "scores.masked_fill(seen, float('-inf'))",
    "a mask on a part": "scores[:, 0].masked_fill(mask == 0, -1e9)",
    "a clamp of weights": "for p in net.parameters():\n    p.data.clamp(-c, c)",
    "a slow copy": "for t, p in zip(a.parameters(), b.parameters()):\n    t.data.mul(1 - tau).add(tau * p)",
    "a slow copy by lerp": "target.lerp(value, 0.005)",
    "loaded weights": "net.state_dict().update(state)",
    "one loaded weight": "net.state_dict()['fc.weight'] = weight",
    "an exchanged layer": "list(net.children())[-1] = nn.Linear(8, 2)",
    "a dropout": "def forward(self, x):\n    F.dropout(x, 0.5, self.training)\n    return self.fc(x)",
    "an order": "np.random.permutation(data)",
    "a clipped array": "np.clip(x, 0, 1)",
    "a clipped tensor": "x.clip(-1, 1)",
    "a step that is not called": "loss.backward()\noptimizer.step",
    "gradients that are not cleared": "if True:\n    optimizer.zero_grad",
    "a comparison": "for p in net.parameters():\n    p.requires_grad == False",
    "axes": "x.permute(0, 2, 1)",
}


@pytest.mark.parametrize("name", DROPPED)
def test_a_result_that_is_dropped_is_told(name):
    ((file, _, words),) = discarded_results({"train.py": f"import torch\n{DROPPED[name]}\n"})
    assert file == "train.py"
    assert words


USED = {
    "in place": "scores.masked_fill_(seen, -1e9)\np.data.clamp_(-c, c)\nt.data.mul_(1 - tau).add_(tau * p)",
    "assigned": "scores = scores.masked_fill(seen, -1e9)\nx = x.permute(0, 2, 1)",
    "returned": "def forward(self, x):\n    return F.dropout(x, 0.5)",
    "written elsewhere": "np.clip(x, 0, 1, out=x)\ntorch.where(m, a, b, out=c)",
    "inplace": "F.relu(x, inplace=True)\ntable.fillna(0, inplace=True)",
    "a set": "names.add(name)\nseen.update(other)",
    "a module": "net.float()\nnet.to(device)\nnet.half()",
    "a file": "path.replace(other)\ngraph.view()\nax.scatter(x, y)",
    "a memory that cuts its own graph": "memory.detach()",
    "a layer that changes its weights": "clipper.clip(net)",
    "a weight": "net.state_dict()['fc.weight'].copy_(weight)",
    "a method of the program's own": "class Order:\n    def permute(self, n):\n        self.n = n\norder.permute(3)",
    "what must fail": "with pytest.raises(ValueError):\n    x.permute(0, 0)\ntry:\n    x.view(3)\nexcept E:\n    a = 1",
    "a docstring": "'a comparison == b'\n...",
    "a chain that ends in a call": "x.detach().cpu().numpy().tofile(path)",
}


@pytest.mark.parametrize("name", USED)
def test_what_does_something_is_not(name):
    assert discarded_results({"train.py": f"import torch\n{USED[name]}\n"}) == []


def test_what_another_training_drops_is_left_out():
    text = "def train():\n    loss.backward()\n\ndef other():\n    x.permute(1, 0)\n    loss.backward()\n"
    assert discarded_results({"train.py": text}, running=frozenset({("train.py", 1)})) == []
    assert len(discarded_results({"train.py": text}, running=frozenset({("train.py", 4)}))) == 1


def test_the_result_names_file_and_line():
    result = results_are_used({"/somewhere/train.py": "x = 1\nx.masked_fill(m, 0)\n"})
    assert result.outcome == "broken"
    assert result.counterexample.startswith("train.py:2: the result of x.masked_fill(m, 0) is dropped")
    assert results_are_used({"train.py": "x = x.masked_fill(m, 0)\n"}).outcome == "held"
