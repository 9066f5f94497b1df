"""What the instructions of CPython 3.11 do: one handler each, in a table.

A handler gets the interpreter and the frame, whose stack it changes. These are the handlers of 3.11; what 3.12 and 3.13
add and change stands in `later`. What is not in the table of a version is not interpreted: a function that has such an
instruction runs as plain Python.

Handlers that touch what lies outside of the function (attributes, globals, calls) ask the interpreter, which guards,
goes into the call, or ends the graph.
"""

from . import containers, control, names, operators
from .control import for_iter, pop_jump
from .names import variable
from .table import BASE, Handler, on

__all__ = ["BASE", "Handler", "for_iter", "on", "pop_jump", "variable"]
