"""What a pattern finds in the text of a program."""

import ast
from collections.abc import Callable, Iterator
from typing import Literal

#: `sign`: a step makes worse what it should make better. `formula`: a value is not what its name says. `frozen`: values
#: that nothing has trained are frozen. `shift`: data of an evaluation are not prepared as those of the training.
#: `shared`: what should have weights of its own has those of another. `leak`: what is to be unknown is given.
Sort = Literal["sign", "formula", "frozen", "shift", "shared", "leak"]

#: Sort, what the expression does and what its names ask for, and its line.
Found = tuple[Sort, str, int]

#: Yields the expressions of a file that contradict their names.
Pattern = Callable[[ast.AST], Iterator[Found]]
