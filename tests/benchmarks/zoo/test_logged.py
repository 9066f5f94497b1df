"""Programs with `ms.watch` and documented scalars: where the lines go, and that they change no result."""

import ast
import re
import sys
from pathlib import Path

import pytest

from benchmarks.mutations import OPERATORS, write_mutant
from benchmarks.mutations.program import Program
from benchmarks.zoo.entries import ENTRIES
from benchmarks.zoo.kept import Runner
from benchmarks.zoo.logged import INSERTIONS, Insertion, with_insertions, write_logged

SCALARS = (Path(__file__).resolve().parents[3] / "docs" / "scalars.md").read_text()
PROGRAM = "import torch\nfor step in range(3):\n    step_()\n    print(step)\n"


@pytest.mark.parametrize("name", INSERTIONS)
def test_the_lines_of_a_program_find_their_places_and_are_python(name):
    source = ENTRIES[name].program.read_text()
    lines = [line.strip() for line in source.splitlines()]
    for insertion in INSERTIONS[name]:
        assert insertion.after or insertion.before
        assert all(lines.count(text) == 1 for text in (insertion.after, insertion.before) if text)
    text = with_insertions(source, INSERTIONS[name])
    ast.parse(text)
    assert len(text.splitlines()) == len(source.splitlines()) + 1 + sum(len(one.lines) for one in INSERTIONS[name])
    assert "ms.watch(" in text


def test_only_documented_scalars_are_logged():
    names = re.findall(r'"(\w+/\w+)":', "\n".join("\n".join(one.lines) for part in INSERTIONS.values() for one in part))
    assert set(names) == {name for name in names if f"`{name}`" in SCALARS}
    assert {"validation/loss", "validation/accuracy", "reward/mean", "policy/kl"} <= set(names)


@pytest.mark.parametrize("name", INSERTIONS)
def test_the_lines_fit_nearly_every_mutant(name):
    source = ENTRIES[name].program.read_text()
    changes = [change for one in OPERATORS.values() for change in one.changes(source) if not one.is_planted]
    texts = [with_insertions(Program(source).edited(change.edits), INSERTIONS[name]) for change in changes]
    for text in texts:
        ast.parse(text or "")
    assert sum(text is not None for text in texts) >= 0.95 * len(texts)


def test_lines_go_beside_their_line_with_its_indentation():
    after = with_insertions(PROGRAM, (Insertion(("if step:", "    log()"), after="step_()"),))
    before = with_insertions(PROGRAM, (Insertion(("log()",), before="print(step)"),))
    assert after.startswith("import mindscope as ms\nimport torch\n")
    assert after.endswith("    step_()\n    if step:\n        log()\n    print(step)\n")
    assert before.endswith("    step_()\n    log()\n    print(step)\n")


def test_where_a_line_is_gone_the_other_place_is_taken_or_the_lines_are_left_out():
    lines = ("log()",)
    other = with_insertions(PROGRAM, (Insertion(lines, after="optimizer.step()", before="print(step)"),))
    assert other == with_insertions(PROGRAM, (Insertion(lines, before="print(step)"),))
    gone = Insertion(lines, after="optimizer.step()")
    assert with_insertions(PROGRAM, (gone,)) == f"import mindscope as ms\n{PROGRAM}"
    twice = PROGRAM + "print(step)\n"
    assert with_insertions(twice, (Insertion(lines, before="print(step)"),)) == f"import mindscope as ms\n{twice}"


def test_a_program_that_cannot_be_watched_has_no_such_script(tmp_path):
    needed = Insertion(("monitor = ms.watch(model)",), after="model = Net()", is_needed=True)
    assert with_insertions(PROGRAM, (needed,)) is None
    script = tmp_path / "gcn.py"
    script.write_text(PROGRAM)
    assert write_logged("gcn", script, tmp_path / "logged") is None
    assert write_logged("siren", ENTRIES["siren"].program, tmp_path / "logged") is None
    assert not (tmp_path / "logged").exists()


def test_what_a_mutant_needs_is_copied_along_and_its_hash_knows_it(tmp_path):
    mutant = write_mutant(ENTRIES["gcn"].program, tmp_path / "mutant", OPERATORS["shuffled-labels"])
    (tmp_path / "mutant" / "mutant").touch()
    script = write_logged("gcn", mutant.script, tmp_path / "logged")
    assert {path.name for path in script.parent.iterdir()} == {"gcn.py", "mutant", "planted.py"}
    assert "planted.shuffled(" in script.read_text()
    assert "ms.watch(" in script.read_text()


def test_the_lines_change_no_digit_of_the_result_and_what_is_said_is_kept(tmp_path):
    python, script = Path(sys.executable), tmp_path / "simclr.py"
    script.write_text(ENTRIES["simclr"].program.read_text().replace("range(1200)", "range(60)"))
    runner = Runner(tmp_path / "cache")
    watched = runner.logged(python, write_logged("simclr", script, tmp_path / "logged"), 0)
    assert watched.cost.result
    assert watched.cost.result == runner.plain(python, script, 0).result
    assert watched.verdict not in ("", "nothing recorded")
    assert Runner(tmp_path / "cache").logged(python, tmp_path / "logged" / "simclr.py", 0) == watched
