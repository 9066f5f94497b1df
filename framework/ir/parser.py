"""From the text of a graph back to the graph; `printer` describes the language."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..primitive import PRIMITIVES
from ..tensor import Parameter as Weight
from ..tensor import Tensor
from .control import CONTROL
from .graph import Graph
from .lexer import ParseError, Words
from .node import Apply, Constant, Node, Where
from .types import Abstract, FunctionType

__all__ = ["parse"]

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


def parse(text: str, table: Sequence[Any] = ()) -> Graph:
    """The first graph of a text, with those that it uses.

    Args:
        text: As `to_text` writes it.
        table: What `to_text` put aside.

    Raises:
        ParseError: With the line, what was expected and what came.
    """
    return _Parser(table).parse(text)


class _Parser:
    """Names that have been met."""

    def __init__(self, table: Sequence[Any]) -> None:
        self._table = table
        self._nodes: dict[str, Node] = {}
        self._bodies: dict[str, _Body] = {}

    def parse(self, text: str) -> Graph:
        """The first graph, complete."""
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
        """The graph that the next line belongs to."""
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
        weight = None
        if words.accept("="):
            words.take("weight")
            weight = words.value()
            if not isinstance(weight, Weight):
                words.fail(f"the weight {name} should be a Parameter, got {weight!r}")
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
        """Nothing; words become inputs, now that every name is known."""
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
        return Constant(operation)

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
            return Constant(body.graph, body.type)
        value = words.value()
        type: Abstract | None = words.type() if words.accept(":") else None
        return Constant(Tensor(value) if isinstance(value, np.ndarray) else value, type)


def _place(note: str) -> Where:
    match = _PLACE.fullmatch(note)
    if not note or match is None:
        return Where()
    return Where(match["site"].strip(), match["file"] or "", int(match["line"] or 0))
