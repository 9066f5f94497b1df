"""capture_mode="ast": from the source of a function to a graph, with the control flow over tensors in it.

The syntax tree is interpreted with the arguments that a call has: what Python knows is computed as Python would, what
depends on tensors becomes nodes. `if`, `while` and `for` over tensors become graphs (`staging`, `source_loops`), and so
does recursion (`recursion`). Nothing of what was read outside is baked in silently: it is guarded or refused
(`outside_reads`).
"""

from . import (
    expressions,
    matching,
    operator_expressions,
    source_builtins,
    source_loops,
    statements,
)
from .source_capture import capture_source

__all__ = ["capture_source"]
