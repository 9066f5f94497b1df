"""What STYLE promises about size: a newcomer finds the place and reads it in one screen."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ("armour", "cli", "dashboard", "framework", "insight", "probe", "storage")
SOURCES = sorted(path for folder in PACKAGE for path in (ROOT / folder).rglob("*.py"))
IDS = [str(path.relative_to(ROOT)) for path in SOURCES]

LINES_A_FILE = 450
LINES_A_FUNCTION = 60
PUBLIC_NAMES = 15
#: Families where one file shows the whole vocabulary, and files that only re-export.
MANY_NAMES = (
    "framework/ops/",
    "framework/kernels/",
    "framework/onnx/operators/",
    "framework/onnx/exporting/",
    "framework/backends/numpy/formulas.py",
    "framework/errors.py",
    "storage/errors.py",
    "dashboard/ids.py",
)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_a_file_holds_one_idea(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    name = str(path.relative_to(ROOT))
    assert text.count("\n") <= LINES_A_FILE
    assert ast.get_docstring(tree), "a file opens with one sentence that tells what it is for"
    long = [f"{node.name}: {body_lines(node)}" for node in functions(tree) if body_lines(node) > LINES_A_FUNCTION]
    assert not long
    if path.name != "__init__.py" and not name.startswith(MANY_NAMES):
        public = [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        ]
        assert len(public) <= PUBLIC_NAMES, public
