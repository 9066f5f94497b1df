"""From the text of a graph back to the graph; `printer` describes the language."""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import NoReturn, TypeVar, cast

import numpy as np

from ..dtype import Dtype, as_dtype
from ..errors import EngineError
from ..primitive import PRIMITIVES
from ..random import from_bits
from ..specs import Shape, Spec
from ..symbolic import Dim, Quotient, SymbolicError, is_static, parse_length
from ..tensor import Array, Tensor
from ..tensor import Parameter as Weight
from .control_ops import CONTROL
from .ir_graph import Apply, ConstantNode, Graph, Node, Where
from .ir_types import Abstract, FunctionType, OpaqueType, TupleType
from .printer import STORED_NAMES

_Item = TypeVar("_Item")

_WORD = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<number>-?(?:\d+\.?\d*(?:[eE][-+]?\d+)?))
  | (?P<name>[%@$][\w.]+|!\w+|[A-Za-z_][\w.]*)
  | (?P<length><[^<>]*>)
  | (?P<sign>->|[-+()\[\]{}:,=])
    )""",
    re.VERBOSE,
)
_LITERALS = {"None": None, "True": True, "False": False, "Ellipsis": Ellipsis}
_CONVERTED: dict[str, Callable[[str], object]] = {
    "float": float,
    "complex": complex,
    "key": lambda text: from_bits(int(text)),
}
_PACKAGE = __name__.rpartition(".ir.")[0]
#: Values whose names in files are not where they are now: the names that are written, and those of older files.
_MOVED = {
    **{stored: now for now, stored in STORED_NAMES.items()},
    "ops.pool.PoolWindow": "ops.sliding_window.PoolWindow",
    "ops.conv.Window": "ops.convolution_ops.ConvolutionWindow",
}


class ParseError(EngineError, ValueError):
    """Text that is no graph."""


class Words:
    """The words of a text, from the first to the last.

    Args:
        text: Without comments.
        line: Its number in the whole, for errors.
        table: What `$number` stands for.
    """

    def __init__(self, text: str, line: int, table: Sequence[object]) -> None:
        self._text, self._line, self._table = text, line, table
        self._words: list[tuple[str, str]] = []
        self._place = place = 0
        end = len(text.rstrip())
        while place < end:
            match = _WORD.match(text, place)
            if match is None:
                self.fail(f"cannot read {text[place : place + 20].strip()!r}")
            self._words.append((match.lastgroup or "", match[match.lastgroup or 0]))
            place = match.end()

    def fail(self, what: str) -> NoReturn:
        """Raise an error that names the line."""
        raise ParseError(f"line {self._line}: {what}, in {self._text.strip()[:80]!r}")

    def peek(self, ahead: int = 0) -> str:
        """Return a word to come, "" behind the last."""
        place = self._place + ahead
        return self._words[place][1] if place < len(self._words) else ""

    def kind(self) -> str:
        """Return what sort of word comes."""
        return self._words[self._place][0] if self._place < len(self._words) else "end"

    def take(self, expected: str | None = None) -> str:
        """Return the next word, which must be the expected one."""
        word = self.peek()
        if word == "" or (expected is not None and word != expected):
            self.fail(f"expected {expected or 'more'!r}, got {word or 'the end of the line'!r}")
        self._place += 1
        return word

    def accept(self, word: str) -> bool:
        """Return whether this word came next; it is taken then."""
        found = self.peek() == word
        self._place += found
        return found

    def name(self, mark: str) -> str:
        """Return the next word, which must be a name with that mark."""
        word = self.take()
        if not word.startswith(mark):
            self.fail(f"expected a name with {mark}, got {word!r}")
        return word

    def listed(self, item: Callable[[], _Item], close: str) -> list[_Item]:
        """Return items up to a closing bracket, which is taken; a comma between them and perhaps after the last."""
        items: list[_Item] = []
        while not self.accept(close):
            items.append(item())
            if not self.accept(","):
                self.take(close)
                break
        return items

    def string(self) -> str:
        """Return a quoted word."""
        if self.kind() != "string":
            self.fail(f"expected a quoted word, got {self.peek()!r}")
        word = self.take()
        try:
            return str(ast.literal_eval(word))
        except (SyntaxError, ValueError):
            self.fail(f"{word} is not quoted as Python quotes")

    # Types.

    def type(self) -> Abstract:
        """Return a type."""
        if self.accept("("):
            return TupleType(tuple(self.listed(self.type, ")")))
        if self.peek().startswith("!"):
            return OpaqueType(self.take()[1:])
        if self.peek() == "fn":
            self.take()
            self.take("(")
            arguments = tuple(self.listed(self.type, ")"))
            self.take("->")
            return FunctionType(arguments, self.type())
        weak = self.accept("weak")
        dtype = self._dtype(self.take())
        return Spec(self._shape(), dtype, weak=weak)

    def _dtype(self, word: str) -> Dtype:
        if not re.fullmatch(r"bool|(u?int|b?float|complex)\d+", word):
            self.fail(f"{word!r} is no element type")
        try:
            return as_dtype(word)
        except EngineError as error:
            self.fail(str(error))

    def _shape(self) -> Shape:
        self.take("[")
        words: list[str] = []
        while self.peek() not in ("]", ""):
            words.append(self.take())
        self.take("]")
        lengths = [part.strip() for part in _split(words)]
        try:
            return cast("Shape", tuple(parse_length(part) for part in lengths if part))
        except SymbolicError as error:
            self.fail(str(error))

    # Values.

    def value(self) -> object:
        """Return a constant or an attribute."""
        kind, word = self.kind(), self.peek()
        if kind == "string":
            return self.string()
        if word in _LITERALS:
            self.take()
            return _LITERALS[word]
        if kind == "number":
            self.take()
            return int(word) if re.fullmatch(r"-?\d+", word) else float(word)
        if kind == "length":
            return self._length(self.take())
        if word == "(":
            self.take()
            return tuple(self.listed(self.value, ")"))
        return self._from_table(self.take()) if word.startswith("$") else self._called(self.take())

    def _from_table(self, word: str) -> object:
        if not word[1:].isdigit() or int(word[1:]) >= len(self._table):
            self.fail(f"{word} is not in the table of {len(self._table)} values that belongs to the text")
        return self._table[int(word[1:])]

    def _length(self, word: str) -> Dim | Quotient:
        text = word[1:-1]
        try:
            above, found, below = text.partition(" / (")
            if found:
                number = re.fullmatch(r"-?\d+(\.\d*)?([eE][-+]?\d+)?", above)
                return Quotient(float(above) if number else parse_length(above), parse_length(below[:-1]))
            length = parse_length(text)
        except SymbolicError:
            self.fail(f"{word} describes a value that only the printed graph has; print it with a table")
        if not isinstance(length, Dim):
            self.fail(f"{word} is no symbolic length")
        return length

    def _called(self, word: str) -> object:
        """Return what is written like a call: `dtype(float32)`, `float64[2](1, 2)`, `ops.conv.Window(...)`,
        `type(...)`."""
        if self.peek() == "[":
            return self._tensor(self._dtype(word))
        self.take("(")
        if word == "type":
            found: object = self.type()
        elif word == "dtype":
            found = self._dtype(self.take())
        elif word in _CONVERTED:
            found = self._converted(word)
        else:
            return self._named_tuple(word)
        self.take(")")
        return found

    def _converted(self, word: str) -> object:
        text = self.take() if word == "key" else self.string()
        try:
            return _CONVERTED[word](text)
        except ValueError:
            self.fail(f"{text!r} is no {word}")

    def _tensor(self, dtype: Dtype) -> Array:
        shape = self._shape()
        if not is_static(shape):
            self.fail(f"a tensor has numbers for lengths, not {shape}")
        self.take("(")
        elements: list[str] = []
        while self.peek() not in (")", ""):
            elements.append(self.take())
        self.take(")")
        kind = complex if dtype.kind == "c" else int if dtype.kind in "iu" else float
        texts = [part for part in _split(elements) if part]
        try:
            values = [part == "True" for part in texts] if dtype.kind == "b" else [kind(part) for part in texts]
            return np.array(values, dtype=dtype).reshape(shape)
        except (ValueError, OverflowError):
            self.fail(f"{len(texts)} elements do not make a tensor of shape {shape} and type {dtype}")

    def _named_tuple(self, word: str) -> tuple[object, ...]:
        module, _, name = _MOVED.get(word, word).rpartition(".")
        try:
            kind = getattr(import_module(f"{_PACKAGE}.{module}"), name, None) if module else None
        except ImportError:
            kind = None
        if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
            self.fail(f"{word!r} is no value of this engine")
        try:
            return kind(**dict(self.listed(self.attribute, ")")))
        except TypeError as error:
            self.fail(str(error))

    def attribute(self) -> tuple[str, object]:
        """Return a name and a value."""
        key = self.take()
        self.take("=")
        return key, self.value()


def _split(words: list[str]) -> list[str]:
    """Return the words between commas, joined."""
    parts, text = [], ""
    for word in words:
        if word == ",":
            parts.append(text)
            text = ""
        else:
            text += word
    return [*parts, text]


_NOTE = re.compile(r"(?P<text>(?:[^#'\"]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")*)#(?P<note>.*)")
_PLACE = re.compile(r"(?P<site>.*?)(?:\s*@ (?P<file>.+):(?P<line>\d+))?$")


@dataclass(slots=True)
class _Line:
    """One node, its inputs still words."""

    node: Apply
    words: Words
    name: str


@dataclass(slots=True)
class _Body:
    """One graph while it is read."""

    graph: Graph
    type: FunctionType
    lines: list[_Line] = field(default_factory=list)
    result: Words | None = None


def parse(text: str, table: Sequence[object] = ()) -> Graph:
    """Return the first graph of a text, with those that it uses.

    Args:
        text: As `to_text` writes it.
        table: What `to_text` put aside.

    Raises:
        ParseError: With the line, what was expected and what came.
    """
    return _Parser(table).parse(text)


class _Parser:
    """Names that have been met."""

    def __init__(self, table: Sequence[object]) -> None:
        self._table = table
        self._nodes: dict[str, Node] = {}
        self._bodies: dict[str, _Body] = {}

    def parse(self, text: str) -> Graph:
        """Return the first graph, complete."""
        body: _Body | None = None
        number = 0
        for number, line in enumerate(text.splitlines(), 1):
            match = _NOTE.match(line)
            words = Words(match["text"] if match else line, number, self._table)
            if not words.peek():
                continue
            body = self._read(words, body, match["note"].strip() if match else "")
        if body is not None or not self._bodies:
            raise ParseError(f"line {number}: the text ends inside a graph, or has none")
        for found in self._bodies.values():
            self._connect(found)
        return next(iter(self._bodies.values())).graph

    def _read(self, words: Words, body: _Body | None, note: str) -> _Body | None:
        """Return the graph that the next line belongs to."""
        if body is None:
            return self._head(words)
        if words.accept("}"):
            if body.result is None:
                words.fail("a graph needs a line 'return'")
            return None
        if words.accept("return"):
            body.result = words
        else:
            self._node(words, body, note)
        return body

    def _head(self, words: Words) -> _Body:
        words.take("graph")
        name = words.name("@")
        graph = Graph(words.string() if words.kind() == "string" else name[1:])
        words.take("(")
        words.listed(lambda: self._parameter(words, graph), ")")
        words.take("->")
        result = words.type()
        words.take("{")
        if name in self._bodies:
            words.fail(f"there are two graphs {name}")
        self._bodies[name] = _Body(graph, FunctionType(tuple(p.type for p in graph.parameters), result))
        return self._bodies[name]

    def _parameter(self, words: Words, graph: Graph) -> None:
        name = words.name("%")
        words.take(":")
        type = words.type()
        title = words.string() if words.accept("named") else name[1:]
        weight: Weight | None = None
        if words.accept("="):
            words.take("weight")
            value = words.value()
            if not isinstance(value, Weight):
                words.fail(f"the weight {name} should be a Parameter, got {value!r}")
            weight = value
        self._define(words, name, graph.add_parameter(type, title, weight))

    def _define(self, words: Words, name: str, node: Node) -> None:
        if name in self._nodes:
            words.fail(f"the name {name} is used twice")
        self._nodes[name] = node

    def _node(self, words: Words, body: _Body, note: str) -> None:
        name = words.name("%")
        words.take(":")
        type = words.type()
        words.take("=")
        node = Apply(body.graph, [], type, None, _place(note))
        self._define(words, name, node)
        body.lines.append(_Line(node, words, name))

    def _connect(self, body: _Body) -> None:
        """Turn words into inputs, now that every name is known."""
        for line in body.lines:
            words, node = line.words, line.node
            node.inputs = [self._function(words)]
            words.take("(")
            node.inputs += words.listed(lambda words=words: self._input(words), ")")  # type: ignore[misc] # a default
            if words.accept("{"):
                node.attributes = dict(words.listed(words.attribute, "}"))
            self._end(words)
        assert body.result is not None
        body.graph.output = self._input(body.result)
        self._end(body.result)

    def _end(self, words: Words) -> None:
        if words.peek():
            words.fail(f"did not expect {words.peek()!r}")

    def _function(self, words: Words) -> Node:
        word = words.peek()
        if word[:1] in ("%", "@"):
            return self._input(words)
        words.take()
        operation = PRIMITIVES.get(word) or CONTROL.get(word)
        if operation is None:
            words.fail(f"there is no primitive or control operation {word!r}")
        return ConstantNode(operation)

    def _input(self, words: Words) -> Node:
        word = words.peek()
        if word.startswith("%"):
            if word not in self._nodes:
                words.fail(f"nothing is called {word}")
            return self._nodes[words.take()]
        if word.startswith("@"):
            if word not in self._bodies:
                words.fail(f"there is no graph {word}")
            body = self._bodies[words.take()]
            return ConstantNode(body.graph, body.type)
        value = words.value()
        type: Abstract | None = words.type() if words.accept(":") else None
        return ConstantNode(Tensor(value) if isinstance(value, np.ndarray) else value, type)


def _place(note: str) -> Where:
    match = _PLACE.fullmatch(note)
    if not note or match is None:
        return Where()
    return Where(match["site"].strip(), match["file"] or "", int(match["line"] or 0))
