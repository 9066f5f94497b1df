"""The zoo's table: programs that can be read, drivers that stay short, and a half that stays sealed."""

import ast
import re

import pytest

from benchmarks.zoo.command import chosen
from benchmarks.zoo.entries import ENTRIES, GROUPS, WORKED_ON
from benchmarks.zoo.split import sealed_families

FAMILIES = frozenset(entry.family for entry in ENTRIES.values())


def test_there_are_as_many_families_as_were_promised():
    assert len(FAMILIES) >= 20


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_an_entry_is_a_program_that_takes_a_seed_and_prints_its_result(entry):
    source = entry.program.read_text()
    assert ast.get_docstring(ast.parse(source))
    assert "seed" in source or "sys.argv[1]" in source
    assert re.search(r'print\(\s*f?"result', source)


@pytest.mark.parametrize("entry", [one for one in ENTRIES.values() if one.group != "plain"], ids=lambda one: one.name)
def test_a_driver_is_short_and_its_packages_are_pinned(entry):
    statements = [node for node in ast.walk(ast.parse(entry.program.read_text())) if isinstance(node, ast.stmt)]
    assert len(statements) <= 40
    assert GROUPS[entry.group]
    pinned = re.compile(r"[\w.-]+==[\w.]+|github:[\w.-]+/[\w.-]+@[0-9a-f]{40}")
    assert all(pinned.fullmatch(package) for package in GROUPS[entry.group])


def test_every_program_of_the_folders_is_in_the_table():
    folders = {entry.program.parent for entry in ENTRIES.values()}
    assert {path.stem for folder in folders for path in folder.glob("*.py")} == set(ENTRIES)


def test_a_release_draws_its_own_half_and_never_one_that_was_worked_on():
    first = sealed_families(FAMILIES, "1.0", worked_on=frozenset())
    assert len(first) == len(FAMILIES) // 2
    assert first == sealed_families(reversed(sorted(FAMILIES)), "1.0", worked_on=frozenset())
    assert first != sealed_families(FAMILIES, "1.1", worked_on=frozenset())
    assert not sealed_families(FAMILIES, "1.0", worked_on=WORKED_ON) & WORKED_ON


def test_the_halves_share_no_family_and_leave_none_out():
    sealed = frozenset({"graph", "diffusion"})
    halves = [{entry.family for entry in chosen(None, None, sealed=sealed, is_sealed=half)} for half in (True, False)]
    assert halves[0] == sealed
    assert halves[1] == FAMILIES - sealed


def test_a_family_of_the_other_half_is_refused_by_name():
    with pytest.raises(ValueError, match="no family of this half is named graph; there are adversarial"):
        chosen(["graph"], None, sealed=frozenset({"graph"}), is_sealed=False)
