"""Small functions, one for each thing that Python's syntax can do, each with arguments to try them on."""

from tests.framework.compiler.source.cases import (
    branches,
    containers,
    elements,
    functions,
    loops,
    matching,
    recursion,
    values,
)
from tests.framework.compiler.source.cases.table import CASES, s, t

__all__ = ["CASES", "s", "t"]
