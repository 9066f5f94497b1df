"""A program's source as something to find places in and to edit, without touching any other character of it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)

#: Losses by the name under which they are called.
LOSS_FUNCTIONS = (
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)
OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "LBFGS")
_WITHOUT_GRADIENT = ("no_grad", "inference_mode")


@dataclass(frozen=True, slots=True)
class Edit:
    """Text that takes the place of what lies between two offsets, which are counted in bytes of UTF-8."""

    start: int
    end: int
    text: str


class Program:
    """One file of Python, its tree, and the edits that an operator can make.

    Args:
        source: Its text.

    Raises:
        SyntaxError: The text is no Python.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self._bytes = source.encode()
        self._parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def _in_order(self) -> list[ast.AST]:
        return sorted(ast.walk(self.tree), key=_place)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def text(self, node: ast.AST) -> str:
        """Return the source of a node."""
        start, end = self._span(node)
        return self._bytes[start:end].decode()

    def operand(self, node: ast.AST) -> str:
        """Return the source of a node as an operand: in brackets unless it is a name, call or the like."""
        is_atom = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
        return self.text(node) if is_atom else f"({self.text(node)})"

    def nodes(self, kind: type[Node], inside: ast.AST | None = None) -> Iterator[Node]:
        """Yield the nodes of one type in the order of the text."""
        everything = self._in_order if inside is None else sorted(ast.walk(inside), key=_place)
        for node in everything:
            if isinstance(node, kind):
                yield node

    def calls(self, *names: str, inside: ast.AST | None = None) -> Iterator[ast.Call]:
        """Yield calls whose function has one of these last names: `F.relu(x)` is a call of `relu`."""
        for call in self.nodes(ast.Call, inside):
            if last_name(call.func) in names:
                yield call

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node that directly holds this one."""
        return self._parents.get(node)

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around this one, the nearest first."""
        while (node := self._parents.get(node)) is not None:
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that holds a node."""
        return next(around for around in (node, *self.parents(node)) if isinstance(around, ast.stmt))

    def trains(self, node: ast.AST) -> bool:
        """Return whether a node lies outside every block or function that is run without gradients."""
        for around in self.parents(node):
            marks: list[ast.AST] = []
            if isinstance(around, ast.With):
                marks = [item.context_expr for item in around.items]
            elif isinstance(around, ast.FunctionDef):
                marks = list(around.decorator_list)
            if any(mark in self.text(place) for place in marks for mark in _WITHOUT_GRADIENT):
                return False
        return True

    def training_loops(self) -> Iterator[ast.For | ast.While]:
        """Yield the innermost loops that contain a backward pass."""
        for call in self.calls("backward"):
            loops = [around for around in self.parents(call) if isinstance(around, ast.For | ast.While)]
            if loops:
                yield loops[0]

    def losses(self) -> Iterator[ast.Call]:
        """Yield calls of a loss on a prediction and a target that a gradient is taken of."""
        modules = {
            last_name(assigned.targets[0])
            for assigned in self.nodes(ast.Assign)
            if isinstance(assigned.value, ast.Call) and last_name(assigned.value.func).endswith("Loss")
        }
        for call in self.calls(*LOSS_FUNCTIONS, *modules):
            if len(call.args) >= 2 and self.trains(call):
                yield call

    def loss_sums(self) -> Iterator[ast.BinOp]:
        """Yield whole sums and differences that become a loss which a gradient is taken of."""
        for added in self.nodes(ast.BinOp):
            statement = self.parent(added)
            if not isinstance(added.op, ast.Add | ast.Sub) or not isinstance(statement, ast.Assign | ast.Return):
                continue
            named = self.text(statement).split("=")[0].lower()
            if any(word in named for word in ("loss", "cost", "err", "kld")) and self.trains(added):
                yield added

    def optimizers(self) -> Iterator[ast.Call]:
        """Yield the calls that make an optimizer."""
        yield from self.calls(*OPTIMIZERS)

    def forwards(self) -> Iterator[ast.FunctionDef]:
        """Yield the `forward` methods, the last class (mostly the whole model) first."""
        yield from reversed([node for node in self.nodes(ast.FunctionDef) if node.name == "forward"])

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that puts text in the place of a node."""
        return Edit(*self._span(node), text)

    def delete(self, statement: ast.stmt) -> Edit:
        """Return the edit that leaves `pass` where a statement was."""
        return self.replace(statement, "pass")

    def before(self, statement: ast.stmt, text: str) -> Edit:
        """Return the edit that puts a line of the same indentation before a statement."""
        start, _ = self._span(statement)
        return Edit(start, start, f"{text}\n{' ' * statement.col_offset}")

    def after(self, statement: ast.stmt, text: str) -> Edit:
        """Return the edit that puts a line of the same indentation after a statement."""
        _, end = self._span(statement)
        return Edit(end, end, f"\n{' ' * statement.col_offset}{text}")

    def at_top(self, text: str) -> Edit:
        """Return the edit that puts a line before the first statement that may have one before it."""
        for number, statement in enumerate(self.tree.body):
            is_docstring = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            if not (is_docstring or is_future):
                start = self._line_starts[_first_line(statement) - 1]
                return Edit(start, start, text + "\n")
        raise ValueError("the program has no statement to put a line before; mutants are made of programs that train")

    def edited(self, edits: tuple[Edit, ...]) -> str:
        """Return the source with all edits made; they must not overlap."""
        text = self._bytes
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
            text = text[: edit.start] + edit.text.encode() + text[edit.end :]
        return text.decode()

    def _span(self, node: ast.AST) -> tuple[int, int]:
        line, column = node.lineno, node.col_offset
        end_line, end_column = node.end_lineno, node.end_col_offset
        return self._line_starts[line - 1] + column, self._line_starts[end_line - 1] + end_column


def last_name(node: ast.AST) -> str:
    """Return `relu` of `torch.relu` and of `relu`, empty of anything that has no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument, None if the call does not have it."""
    return next((given.value for given in call.keywords if given.arg == name), None)


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])
