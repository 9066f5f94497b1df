"""What the parts of a program are for: its losses, its evaluation, its labels, as far as names and calls tell."""

import ast
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from .edits import Edit, called, names_in
from .lines import Line, lines_of

_LOSS: Final = frozenset(
    {"loss", "losses", "criterion", "objective", "nll", "bce", "mse", "elbo", "ce", "kl", "kld", "dice", "penalty"}
)
_EVALUATION: Final = frozenset(
    {"test", "testing", "val", "valid", "validation", "dev", "eval", "evaluate", "evaluation", "evaluated", "accuracy"}
)
_LABELS: Final = frozenset(
    {"label", "labels", "target", "targets", "tgt", "y", "ys", "yb", "gt", "truth", "answers", "classes", "boxes"}
)
_INPUTS: Final = frozenset(
    {"x", "xs", "xb", "input", "inputs", "image", "images", "img", "imgs", "src", "tokens", "features", "feats", "data"}
)
#: Words of methods of a module that train it, and are no part of its forward.
_OF_TRAINING: Final = frozenset(
    {"init", "loss", "step", "train", "training", "fit", "sample", "validation", "configure"}
)
_TEACHERS: Final = frozenset({"target", "targets", "teacher", "ema", "shadow", "polyak", "averaged", "swa", "momentum"})
#: Words of what draws a batch.
DRAWN: Final = frozenset(
    {"batch", "batches", "sample", "sampler", "samples", "loader", "draw", "pick", "indices", "randint", "randperm"}
)
SCHEDULES: Final = frozenset(
    {"sched", "scheduler", "schedulers", "schedule", "warmup", "cosine", "anneal", "annealing", "plateau"}
)
OPTIMIZERS: Final = re.compile(
    r"^(SGD|(Sparse|N|R|Fused)?Adam\w*|AdamW|Adamax|RMSprop|Adagrad|Adadelta|LBFGS|Lion|Muon)$"
)


def words_of(name: str) -> frozenset[str]:
    """Return the words of `snake_case`, `camelCase` or both, in lower case, without numbers behind them."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    return frozenset(word.rstrip("0123456789") or word for word in words)


def all_words(names: Iterable[str]) -> frozenset[str]:
    """Return the words of several names."""
    return frozenset[str]().union(*map(words_of, names))


def words_in(node: ast.AST | None) -> frozenset[str]:
    """Return the words of all identifiers of a tree."""
    return all_words(names_in(node))


def assigned(line: Line) -> frozenset[str]:
    """Return the names that a line gives a value to."""
    node = line.node
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    found = [name for target in targets if isinstance(target, ast.AST) for name in names_in(target)]
    return frozenset(found) - {"self"}


def makes_optimizer(node: ast.AST) -> bool:
    """Return whether an optimizer is made in a tree."""
    return any(OPTIMIZERS.match(called(one)) for one in ast.walk(node))


class Roles:
    """The parts of the program that a run had, and of the good one.

    Args:
        good: Texts of the good program's files.
        other: Texts of the program of the run.
        edits: All that was done to it.
    """

    def __init__(self, good: Iterable[str], other: Iterable[str], edits: Sequence[Edit] = ()) -> None:
        self._good = [line for text in good for line in lines_of(text)]
        self.lines = [line for text in other for line in lines_of(text)]

        lost, gained = (frozenset[str]().union(*(getattr(edit, name) for edit in edits)) for name in ("lost", "gained"))
        #: Identifiers that went out and did not come in elsewhere.
        self.gone = lost - gained

    @cached_property
    def read(self) -> frozenset[str]:
        """Names and attributes that this program reads."""
        nodes = [node for line in self.lines for node in ast.walk(line.node)]
        loads = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Load)]
        return frozenset(str(getattr(node, "id", getattr(node, "attr", ""))) for node in loads)

    @cached_property
    def given(self) -> frozenset[str]:
        """Names that this program gives a value to."""
        return frozenset[str]().union(*(assigned(line) for line in self.lines))

    def has_value(self, text: str) -> bool:
        """Return whether another name of this program has this value."""
        return sum(text == value for line in self.lines for value in _values(line.node)) > 1

    @cached_property
    def losses(self) -> frozenset[str]:
        """Names of values that are differentiated, and of the functions that they come from."""
        found = set[str]()
        for line in (*self.lines, *self._good):
            for node in ast.walk(line.node) if not getattr(line.node, "body", None) else ():
                if called(node) == "backward" and isinstance(node, ast.Call):
                    found |= names_in(node) - {"backward", "scale", "scaler", "self", "accelerator"}
        for line in reversed(self.lines):
            if assigned(line) & found and isinstance(line.node, ast.Assign):
                found |= {called(node) for node in ast.walk(line.node.value)} - {""}
                found |= {name for name in names_in(line.node.value) if words_of(name) & _LOSS}
        return frozenset(found)

    def is_loss(self, edit: Edit) -> bool:
        """Return whether what differs makes a loss."""
        line = edit.line
        names = assigned(line) | set(line.names_around[-1:])
        if isinstance(line.node, ast.Return):
            names |= names_in(line.node)
        return bool(names & self.losses or all_words((*names, *line.names_around)) & _LOSS)

    def is_evaluation(self, edit: Edit) -> bool:
        """Return whether what differs belongs to an evaluation alone."""
        around = [line for line in edit.line.around if not isinstance(line.node, ast.ClassDef)]
        heads = [words_in(line.node.iter) for line in around if isinstance(line.node, ast.For)]
        names = [words_of(name) for name in (*edit.line.names_around, *assigned(edit.line))]
        return any(words & _EVALUATION and "train" not in words for words in (*names, *heads))

    def is_argument(self, edit: Edit, name: str) -> bool:
        """Return whether a name is an argument of the function that a line stands in."""
        functions = [line.node for line in edit.line.around if isinstance(line.node, ast.FunctionDef)]
        return bool(functions) and name in {one.arg for one in functions[-1].args.args}

    def is_forward(self, edit: Edit) -> bool:
        """Return whether what differs is computed by a module: in its `forward`, or in what that may call."""
        names = edit.line.names_around
        if "forward" in names or names[-1:] == ("__call__",):
            return True
        classes = [line.node for line in edit.line.around if isinstance(line.node, ast.ClassDef)]
        has_forward = any(getattr(one, "name", "") == "forward" for node in classes for one in node.body)
        return has_forward and len(names) > 1 and all_words(names[-1:]).isdisjoint(_OF_TRAINING)

    @cached_property
    def schedules(self) -> frozenset[str]:
        """Names of schedules of a rate."""
        made = [line for line in self.lines if isinstance(line.node, ast.Assign)]
        return frozenset[str]().union(*(assigned(line) for line in made if _is_schedule(line.node)))

    def is_after_backward(self, line: Line) -> bool:
        """Return whether a call of `backward` stands before a line, nearer than one of `step`."""
        before = [called(getattr(one.node, "value", None)) for one in self.lines[: self._index(line)]]
        return next((name for name in reversed(before) if name in ("backward", "step")), "") == "backward"

    def is_before_draw(self, line: Line) -> bool:
        """Return whether a line behind one, of the same block, draws a batch."""
        block = line.blocks
        behind = [one for one in self.lines[self._index(line) + 1 :] if one.blocks == block]
        return any(words_in(one.node) & DRAWN - {"randint", "randperm", "sample"} for one in behind)

    def _index(self, line: Line) -> int:
        same = [number for number, one in enumerate(self.lines) if one.text == line.text and _at(one) == _at(line)]
        return same[0] if same else 0


def _is_schedule(node: ast.AST) -> bool:
    """Return whether a line makes a schedule of torch, whose names end so."""
    return any(called(one).endswith("LR") or "lr_scheduler" in names_in(one) for one in ast.walk(node))


def _at(line: Line) -> int:
    return getattr(line.node, "lineno", 0)


def _values(node: ast.AST) -> list[str]:
    """Return the texts of what a statement gives or assigns, one by one."""
    value = getattr(node, "value", None)
    value = getattr(value, "value", value) if isinstance(value, ast.Yield) else value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return [ast.unparse(part) for part in parts if isinstance(part, ast.expr)]


def of_labels(names: frozenset[str]) -> bool:
    """Return whether one of these is called like a label."""
    return any(words_of(name) & _LABELS for name in names)


def of_inputs(names: frozenset[str]) -> bool:
    """Return whether one of these is called like an input."""
    return any(words_of(name) & _INPUTS for name in names)


def of_teacher(names: frozenset[str]) -> bool:
    """Return whether one of these is called like a network that follows another."""
    return any(words_of(name) & _TEACHERS for name in names)
