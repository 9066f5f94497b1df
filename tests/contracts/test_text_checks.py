"""The verdict tells of all checks of a program's text in one line, and so has to know them all."""

import sys
from types import ModuleType

from mindscope.insight import verdict
from mindscope.probe.checks.program_text.text_checks import text_checks


def test_the_verdict_knows_every_check_of_a_text(tmp_path, monkeypatch):
    path = str(tmp_path / "train.py")
    module = ModuleType("train")
    module.__file__, module.found = path, []
    module.look = lambda: module.found.extend(text_checks(path, {path: "look()\n"}))
    monkeypatch.setitem(sys.modules, "train", module)
    exec(compile("look()\n", path, "exec"), vars(module))
    assert {result.check for result in module.found} == verdict._OF_TEXT
