"""Branches that the settings of a run switch off are no part of its text; what is left does the same."""

import ast
import random
import sys
import textwrap
from types import ModuleType

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions
from mindscope.probe.checks.program_text.reach import running_frames
from mindscope.probe.checks.program_text.taken_branches import taken_sources


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Run a program, which calls `look()` somewhere, and return its text without the branches that it did not take."""

    def run(text, name="program"):
        path = str(tmp_path / f"{name}.py")
        module = ModuleType(name)
        module.__file__ = path
        found = []
        module.look = lambda: found.append(taken_sources({path: text}, running_frames({path: text}))[path])
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(text, path, "exec"), vars(module))
        assert len(found[0].splitlines()) == len(text.splitlines())
        kept = [(at, line.strip()) for at, line in enumerate(found[0].splitlines()) if "done.append" in line]
        assert set(kept) <= {(at, line.strip()) for at, line in enumerate(text.splitlines())}
        ast.parse(found[0])
        return found[0]

    return run


SWITCHES = textwrap.dedent(
    """
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", default="none")
    parser.add_argument("--layers", type=int, default=2)
    args = parser.parse_args([{words}])
    kind = args.variant
    def loss(p, y, args):
        if args.variant == "flipped":
            return flipped(p, y)
        elif args.layers > 3 and args.variant != "none":
            return deep(p, y)
        else:
            return right(p, y)
    def train(flag, steps=3):
        if flag:
            flagged()
        if not flag or steps == 4:
            other()
        for step in range(steps):
            if step == 0:
                first()
        look()
    first = other = flagged = lambda: None
    train({flag})
    """
)


@pytest.mark.parametrize(
    ("words", "flag", "left", "gone"),
    [
        ("", True, ["right(p", "flagged()\n", "first()"], ["flipped(p", "deep(p", "other()\n"]),
        ("'--variant', 'flipped'", False, ["flipped(p", "other()\n"], ["right(p", "deep(p", "flagged()\n"]),
        ("'--variant', 'x', '--layers', '4'", False, ["deep(p"], ["right(p", "flipped(p"]),
    ],
)
def test_settings_settle_a_branch_in_any_function(taken, words, flag, left, gone):
    text = taken(SWITCHES.format(words=words, flag=flag))
    assert [part for part in left if part not in text] == []
    assert [part for part in gone if part in text] == []


@pytest.mark.parametrize(
    "text",
    [
        "on = True\nif on:\n    on = False\nelse:\n    kept()\nlook()\n",
        "class Box: pass\nbox = Box()\nbox.on = 1\nif box.on == 1:\n    a = 1\nlook()\n",
        "for on in (False, True):\n    if on:\n        look()\n    else:\n        kept = 1\n",
        "def f(on):\n    if on:\n        return 1\non = True\nf(False)\nf(on)\nlook()\n",
        "def f(self):\n    if self.on:\n        a = 1\nclass self:\n    on = False\nlook()\n",
        "a, b = {'on': 0}, {'on': 1}\ndef f(c):\n    if c['on']:\n        d = 1\n    look()\n"
        "def g(c): f(c)\ng(a)\ng(b)\n",
        "def f():\n    print()\n    return 0\nif f():\n    kept = 1\nlook()\n",
        "def f(on):\n    if on:\n        return 1\n    return 2\nf(0)\nmap(f, [0, 1])\nlook()\n",
        "class C:\n    def __init__(self, on):\n        self.on = on\n    def f(self):\n        if self.on:\n"
        "            kept = 1\na, b = C(0), C(1)\nlook()\n",
        "n = 0\nif n: kept = 1\nlook()\n",
        # two functions that call each other
        "def f(n, on):\n    if on:\n        kept = 1\n    g(n, n)\ndef g(n, m):\n    if n:\n        f(n - 1, m)\n"
        "    look()\nglobals()['f'](1, 0)\n",
        "for step in range(2):\n    on = step == 0\n    if on:\n        kept = 1\n    look()\n",
        "def f(x):\n    on = x.pop()\n    if on:\n        kept = 1\n    look()\nfor _ in range(2):\n    f([0])\n",
    ],
    ids=[
        "given twice",
        "written",
        "loop",
        "parameter",
        "self",
        "two objects",
        "call",
        "handed on",
        "two of a class",
        "one line",
        "each other",
        "each round",
        "each call",
    ],
)
def test_what_may_change_settles_nothing(taken, text):
    assert taken(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "def f(on):\n    if on:\n        gone()\n    kept()\ndef kept(): pass\nf(False)\nlook()\n",
        "def f(x, *, on=False):\n    if on:\n        gone()\n    kept()\ndef kept(): pass\nf(1)\nlook()\n",
        "class C:\n    def __init__(self, on):\n        self.on = on\n    def f(self):\n        if self.on:\n"
        "            gone()\n        else:\n            kept()\nc = C(0)\nlook()\n",
        "class C:\n    def __init__(self, on):\n        if on:\n            gone()\n        kept()\n"
        "def kept(): pass\nc = C(on=0)\nlook()\n",
        "def train(fault):\n    def loss():\n        if fault == 'sign':\n            gone()\n        kept()\n"
        "    look()\ntrain('none')\n",
        "def train(fault):\n    for _ in range(2):\n        if fault == 'sign':\n            gone()\n"
        "        step()\ndef step():\n    kept = look()\n{'a': train}['a']('none')\n",
        "BAD = {'a'}\ndef has(name):\n    return name in BAD\nif has('b'):\n    gone()\nkept = 1\nlook()\n",
        "import os, sys\nif os.environ.get('NO_SUCH_VARIABLE') == '1' or '--no-such' in sys.argv:\n    gone()\n"
        "kept = 1\nlook()\n",
        "cfg = {'net': {'deep': False}}\ndef f(c):\n    if c['net']['deep'] or c.get('wide', False):\n        gone()\n"
        "    kept()\ndef kept(): pass\nf(cfg)\nlook()\n",
        "class Config:\n    def __init__(self):\n        self.deep = False\nclass Net:\n"
        "    def __init__(self, config):\n        self.config = config\n"
        "    def forward(self):\n        if self.config.deep:\n            gone()\n        kept()\n"
        "config = Config()\nnet = Net(config)\nlook()\n",
    ],
    ids=[
        "argument",
        "default",
        "self",
        "maker",
        "closure",
        "table",
        "function",
        "environment",
        "dictionary",
        "object in an object",
    ],
)
def test_settings_are_followed(taken, text):
    left = taken(text)
    assert "gone" not in left
    assert "kept" in left


def test_properties_are_not_called(taken):
    text = """
class Settings:
    @property
    def on(self):
        raise AssertionError("the program's own code was run")
settings = Settings()
def f():
    if settings.on:
        kept()
look()
"""
    assert taken(text) == text


def _program(random_, depth=3, indent=""):
    tests = [
        "a == 1",
        "b",
        "not b",
        "c in ('x', 'y')",
        "d['k'] is None",
        "a > 1 or unknown()",
        "a < 9 and b",
        "unknown()",
    ]
    lines = []
    for _ in range(random_.randint(1, 3)):
        if depth and random_.random() < 0.7:
            lines.append(f"{indent}if {random_.choice(tests)}:")
            lines += _program(random_, depth - 1, indent + "    ")
            while random_.random() < 0.4:
                lines.append(f"{indent}elif {random_.choice(tests)}:")
                lines += _program(random_, depth - 1, indent + "    ")
            if random_.random() < 0.6:
                lines.append(f"{indent}else:")
                lines += _program(random_, depth - 1, indent + "    ")
        else:
            lines += [""] * random_.randrange(2)
            lines.append(f"{indent}done.append({random_.randrange(10**6)})")
    return lines


@pytest.mark.parametrize("seed", range(60))
def test_the_text_that_is_left_does_the_same(taken, seed):
    random_ = random.Random(seed)
    values = f"a, b, c = {random_.randrange(3)}, {random_.random() < 0.5}, {random_.choice('xz')!r}\n"
    head = f"{values}d = {{'k': {random_.choice([None, 1])}}}\ndone = []\n"
    head += "truths = __import__('random').Random(0)\ndef unknown():\n    return truths.random() < 0.5\n"
    text = head + "\n".join(_program(random_)) + "\nlook()\n"
    left = taken(text, f"program{seed}")
    done = []
    for each in (text, left):
        names = {"look": lambda: None}
        exec(each, names)
        done.append(names["done"])
    assert done[0] == done[1]
    assert left != text or "unknown()" in text or "if " not in text
    tests = [ast.unparse(node.test) for node in ast.walk(ast.parse(left)) if isinstance(node, ast.If)]
    assert [test for test in tests if "unknown" not in test] == []


def test_a_fault_behind_a_switch_is_told_of_the_run_that_takes_it(taken):
    text = textwrap.dedent(
        """
        WRONG = {value}
        def update(ema, model, decay):
            for kept, new in zip(ema.parameters(), model.parameters()):
                if WRONG:
                    kept = decay * kept + (1 - decay) * new
                else:
                    kept.data.mul_(decay).add_(new, alpha=1 - decay)
        look()
        """
    )
    told = [contradictions({"p.py": taken(text.format(value=value))}) for value in (True, False)]
    assert [len(found) for found in told] == [1, 0]
