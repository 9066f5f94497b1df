"""What belongs to the training that runs, in a file that holds more than one."""

import textwrap

from mindscope.probe.checks.program_text.unread_values import unread_values

TWO = textwrap.dedent(
    """
    class Net(nn.Module):
        def __init__(self):
            self.drop = nn.Dropout(0.1)
    class Other(nn.Module):
        def __init__(self):
            self.norm = nn.LayerNorm(3)
    def cost(p, y, mask):
        return (p - y).mean()
    def first(data):
        net = Net()
        for x, lengths in data:
            cost(net(x), x, x).backward()
    def second(data):
        net = Other()
        for x, weights in data:
            net(x).sum().backward()
    def main(name):
        {"first": first, "second": second}[name](load())
    main("first")
    """
)


def _line(text):
    return TWO.splitlines().index(text) + 1


def test_only_the_training_that_runs_is_judged():
    first = frozenset({("t.py", _line("def first(data):")), ("t.py", _line("def main(name):")), ("t.py", 0)})
    second = frozenset({("t.py", _line("def second(data):")), ("t.py", 0)})
    assert [one.name for one in unread_values({"t.py": TWO}, running=first)] == ["self.drop", "mask", "lengths"]
    assert [one.name for one in unread_values({"t.py": TWO}, running=second)] == ["self.norm"]
    assert len(unread_values({"t.py": TWO})) == 4


def test_constants_of_another_file_are_not_judged():
    sources = {"t.py": "import helper\nloss.backward()\n", "helper.py": "GAMMA = 0.9\ndef f(mask):\n    return 1\n"}
    assert unread_values(sources, running=frozenset({("t.py", 0)})) == []


def test_a_program_that_runs_text_is_not_judged():
    assert unread_values({"t.py": "GAMMA = 0.9\nrunpy.run_path('x.py')\n"}) == []


VARIANTS = textwrap.dedent(
    """
    class Base(nn.Module):
        def p_losses(self, x, clip_weight):
            return x.sum()
    class Used(Base):
        def __init__(self):
            self.one = nn.Linear(3, 3)
        def forward(self, x):
            return self.p_losses(self.one(x), 1)
    class Unused(Base):
        def __init__(self):
            self.norm = nn.LayerNorm(3)
        def p_losses(self, x, mask):
            return x.mean()
    Used()(x).backward()
    """
)


def test_methods_of_a_class_that_nothing_names_are_not_judged_though_others_have_their_name():
    sources = {"t.py": VARIANTS, "other.py": VARIANTS.replace("Used()(x).backward()", "")}
    found = unread_values(sources, running=frozenset({("t.py", 0)}))
    assert {one.name for one in found} == {"clip_weight"}
