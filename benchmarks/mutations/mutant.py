"""Writes a broken copy of a program: its source with a few places changed, and what those need beside it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from .program import Program
from .registry import Change, Operator

_PLANTED = Path(__file__).with_name("planted.py")

#: A finder of one module, which compiles another text under the module's own name and path.
_HOOK = """
import importlib.machinery
import importlib.util
import sys
from pathlib import Path


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        Path(__file__).with_name("reached").touch()
        return compile(Path(__file__).with_name({file!r}).read_text(encoding="utf-8"), self.path, "exec")


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        spec.loader = _Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, _Finder())
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken program on disk.

    Args:
        script: What to run.
        line: Where the original was changed, and how; for a person.
        attribute: Attribute of a module that is at fault; empty if no single one is.
    """

    script: Path
    operator: Operator
    line: str
    attribute: str

    @property
    def was_reached(self) -> bool:
        """Whether what is planted was run; always so where only the text was changed."""
        beside = self.script.parent
        has_marker = (beside / "planted.py").exists() or (beside / "hook.py").exists()
        return (beside / "reached").exists() or not has_marker


def write_mutant(program: Path, into: Path, operator: Operator, *, choice: int = 0) -> Mutant:
    """Write a broken copy of a program into a folder.

    Args:
        choice: Which of the places that the operator finds; counted on from the first after the last.

    Raises:
        ValueError: The operator finds no place in the program.
    """
    source = program.read_text(encoding="utf-8")
    change = _chosen(source, operator, choice, program.name)
    into.mkdir(parents=True, exist_ok=True)
    mutated = Program(source).edited(change.edits)
    script = into / program.name
    script.write_text(mutated, encoding="utf-8")
    if "planted." in mutated:
        shutil.copy(_PLANTED, into / "planted.py")
    (into / "reached").unlink(missing_ok=True)
    return Mutant(script, operator, f"{program.name}:{change.line}: {change.what}", change.attribute)


def write_module_mutant(
    program: Path, into: Path, operator: Operator, module: str, source: str, *, choice: int = 0
) -> Mutant:
    """Write a program that imports a broken copy of one module, by a hook; the program itself is unchanged.

    Args:
        module: Dotted name of the module, of a package that the program imports.
        source: Its text.
        choice: As for `write_mutant`.

    Raises:
        ValueError: The operator finds no place in the module, or needs more than its text.
    """
    change = _chosen(source, operator, choice, module)
    mutated = Program(source).edited(change.edits)
    if "planted." in mutated:
        raise ValueError(
            f"operator {operator.name!r} plants code, which a module cannot import; take one that does not"
        )
    into.mkdir(parents=True, exist_ok=True)
    file = f"{module}.txt"
    (into / file).write_text(mutated, encoding="utf-8")
    (into / "hook.py").write_text(_HOOK.format(file=file, module=module), encoding="utf-8")
    original = Program(program.read_text(encoding="utf-8"))
    script = into / program.name
    script.write_text(original.edited((original.at_top("import hook"),)), encoding="utf-8")
    (into / "reached").unlink(missing_ok=True)
    return Mutant(script, operator, f"{module}:{change.line}: {change.what}", change.attribute)


def _chosen(source: str, operator: Operator, choice: int, name: str) -> Change:
    changes = operator.changes(source)
    if not changes:
        raise ValueError(f"operator {operator.name!r} finds no place in {name}; ask `applies` first")
    return changes[choice % len(changes)]
