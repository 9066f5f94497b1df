"""What the settings of a run are: values that a program's text gives once, read from the run without calling it."""

import ast
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import FrameType, ModuleType
from typing import Any, Final

from ...frame_variables import variables_of_function
from .bindings import LOOPS, Function, argument_of, called, given_to, lines_of, names_given, parameters_of
from .trees import walked

#: What a setting may be; nothing of it is the program's own code.
_PLAIN: Final = (bool, int, float, str, type(None))
_SEVERAL: Final = (tuple, list, set, frozenset)
#: Calls inside each other that are followed, and modules of networks that are looked at. Our choice.
_DEEPEST: Final = 4
_MOST_MODULES: Final = 2000
_COMPARED: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_Owner = Function | ast.ClassDef
_REPEATED: Final = (*LOOPS, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


class Unknown(LookupError):
    """An expression whose value the settings do not tell."""


class _Differs(Unknown):
    """A value that is not the same everywhere."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an expression stands.

    Args:
        path: The file.
        owners: Functions and classes around it, outermost first.
        bound: Values of names that stand for the arguments of a call.
        depth: Calls that were followed to come here.
        is_repeated: Whether a loop of the innermost function repeats it.
    """

    path: str
    owners: tuple[_Owner, ...] = ()
    bound: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    is_repeated: bool = False

    def inside(self, node: ast.AST) -> "Scope":
        """Return the scope of what a node of this scope holds."""
        if isinstance(node, _Owner):
            return replace(self, owners=(*self.owners, node), is_repeated=False)
        return replace(self, is_repeated=True) if isinstance(node, _REPEATED) and not self.is_repeated else self

    @property
    def owner(self) -> _Owner | None:
        """The innermost class that the expression is in the body of a method of."""
        return next((one for one in reversed(self.owners) if isinstance(one, ast.ClassDef)), None)


def walk(node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    """Yield every node below one, with its scope."""
    for child in ast.iter_child_nodes(node):
        yield child, scope
        yield from walk(child, scope.inside(child))


class Settings:
    """What expressions of a program are throughout a run.

    Args:
        trees: The parsed files, by path.
        running: By path, the frames of its functions that are running, innermost first.
    """

    def __init__(self, trees: Mapping[str, ast.Module], running: Mapping[str, list[FrameType]]) -> None:
        self._running, self._trees = running, trees
        self._globals = {path: _globals_of(path) for path in trees}
        self._given: dict[ast.AST, dict[str, int]] = {}
        self._written: set[str] = set()
        self._calls: dict[str, list[tuple[ast.Call, Scope]]] = {}
        self._called_nodes: set[int] = set()
        self._handed_on: set[str] = set()
        self._functions: dict[str, list[tuple[_Owner, Scope]]] = {}
        for path, tree in trees.items():
            for node, scope in walk(tree, Scope(path)):
                self._note(node, scope)
        self._locals = {id(frame): variables_of_function(frame) for frames in running.values() for frame in frames}
        self._lasting = self._frames_that_last()
        self._objects: dict[str, dict[int, Any]] = {}
        for names in self._places():
            for name, value in list(names.items()):
                if not isinstance(value, _PLAIN):
                    self._objects.setdefault(name, {})[id(value)] = value

    def _frames_that_last(self) -> set[int]:
        """Return the frames that are in a loop, which is that of the training, and those that have called them."""
        functions = [node for several in self._functions.values() for node, _ in several if isinstance(node, Function)]
        found: set[int] = set()
        for frame in (frame for frames in self._running.values() for frame in frames):
            function = next((node for node in functions if _is_of(frame, node)), None)
            outer: FrameType | None = frame if function is not None and _is_in_a_loop(frame, function) else None
            while outer is not None:
                found.add(id(outer))
                outer = outer.f_back
        return found

    def _places(self) -> list[Mapping[str, Any]]:
        return [*self._globals.values(), *self._locals.values()]

    def _note(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, _Owner):
            self._functions.setdefault(node.name, []).append((node, scope))
        elif isinstance(node, ast.Call):
            self._calls.setdefault(called(node), []).append((node, scope))
            self._called_nodes.add(id(node.func))
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            if id(node) not in self._called_nodes:
                self._handed_on.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Attribute) and not _is_made_here(node, scope):
            self._written.add(node.attr)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            self._written.update(str(one.value) for one in [node.slice] if isinstance(one, ast.Constant))

    def value(self, node: ast.expr, scope: Scope) -> Any:
        """Return what an expression is throughout the run.

        Raises:
            Unknown: The settings do not tell.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self.value(node.operand, scope)
        if isinstance(node, ast.BoolOp):
            return self._joined(node, scope)
        if isinstance(node, ast.Compare):
            return self._compared(node, scope)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return [self.value(one, scope) for one in node.elts]
        if isinstance(node, ast.Call):
            return _plain(self._called(node, scope))
        return _plain(self._object(node, scope))

    def _joined(self, node: ast.BoolOp, scope: Scope) -> bool:
        """Return the value of `and` or `or`, which one side may settle."""
        decides = isinstance(node.op, ast.Or)
        is_open = False
        for part in node.values:
            try:
                if bool(self.value(part, scope)) is decides:
                    return decides
            except LookupError:
                is_open = True
        if is_open:
            raise Unknown
        return not decides

    def _compared(self, node: ast.Compare, scope: Scope) -> bool:
        sides = [self.value(one, scope) for one in (node.left, *node.comparators)]
        try:
            pairs = zip(node.ops, sides[:-1], sides[1:], strict=True)
            return all(bool(_COMPARED[type(how)](one, other)) for how, one, other in pairs)
        except TypeError as error:
            raise Unknown from error

    def _called(self, node: ast.Call, scope: Scope) -> Any:
        """Return what a function of one expression gives, or what a dictionary or the environment has."""
        if isinstance(node.func, ast.Attribute):
            return self._got(node, node.func, scope)
        functions = self._functions.get(called(node), [])
        function = functions[0][0] if len(functions) == 1 else None
        if not isinstance(function, Function) or scope.depth >= _DEEPEST or node.keywords:
            raise Unknown
        body = [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
        names = [one.arg for one in function.args.args]
        if (
            len(body) != 1
            or not isinstance(body[0], ast.Return)
            or body[0].value is None
            or len(names) != len(node.args)
        ):
            raise Unknown
        bound = {name: self.value(one, scope) for name, one in zip(names, node.args, strict=True)}
        inside = functions[0][1].inside(function)
        return self.value(body[0].value, replace(inside, bound=bound, depth=scope.depth + 1))

    def _got(self, node: ast.Call, function: ast.Attribute, scope: Scope) -> Any:
        if function.attr not in ("get", "getenv") or not node.args or node.keywords:
            raise Unknown
        key, *otherwise = (self.value(one, scope) for one in node.args)
        if ast.unparse(function) in ("os.environ.get", "os.getenv"):
            held: Mapping[Any, Any] = os.environ
        else:
            found = self._object(function.value, scope)
            held = found if type(found) is dict else {}
            if type(found) is not dict or key in self._written:
                raise Unknown
        return held[key] if key in held else next(iter(otherwise), None)

    def _object(self, node: ast.expr, scope: Scope) -> Any:
        """Return what a name, an attribute or a key holds."""
        if isinstance(node, ast.Name):
            return self._named(node.id, scope)
        if isinstance(node, ast.Subscript):
            return _item(self._object(node.value, scope), self._key(node, scope))
        if not isinstance(node, ast.Attribute) or node.attr in self._written:
            raise Unknown
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return self._of_self(node.attr, scope)
        return _attribute(self._object(node.value, scope), node.attr)

    def _key(self, node: ast.Subscript, scope: Scope) -> Any:
        key = self.value(node.slice, scope)
        if str(key) in self._written:
            raise Unknown
        return key

    def _of_self(self, name: str, scope: Scope) -> Any:
        """Return an attribute that all known objects of the class have alike."""
        if scope.owner is None:
            raise Unknown
        found = [_attribute(one, name) for one in self._instances.get(scope.owner.name, ())]
        if not found or any(one is not found[0] and not _is_same(one, found[0]) for one in found):
            raise Unknown
        return found[0]

    @cached_property
    def _instances(self) -> Mapping[str, list[Any]]:
        """Objects by the names of their classes: those that have a name, and the modules inside of networks."""
        waiting = {each: value for objects in self._objects.values() for each, value in objects.items()}
        found: dict[str, list[Any]] = {}
        values = list(waiting.values())
        for value in values:  # the list grows
            found.setdefault(type(value).__name__, []).append(value)
            for module in _modules_of(value):
                if id(module) not in waiting and len(values) < _MOST_MODULES:
                    waiting[id(module)] = module
                    values.append(module)
        return found

    def _named(self, name: str, scope: Scope) -> Any:
        """Return what a name has been from the beginning of the run, or of the function that is running."""
        if name in scope.bound:
            return scope.bound[name]
        for at in range(len(scope.owners) - 1, -1, -1):
            owner = scope.owners[at]
            if isinstance(owner, Function) and (count := self._bindings(owner).get(name, 0)):
                if count > 1:
                    raise Unknown
                return self._local(name, owner, replace(scope, owners=scope.owners[:at]))
        names = self._globals.get(scope.path, {})
        if name not in names or self._bindings(self._trees[scope.path]).get(name, 0) > 1:
            raise Unknown
        return names[name]

    def _local(self, name: str, function: Function, scope: Scope) -> Any:
        """Return what a name of a function is in every call of it."""
        try:
            if name in parameters_of(function):
                return self._passed(name, function, scope)
            return self._any(given_to(name, function), scope.inside(function))
        except _Differs:
            raise
        except LookupError:
            return self._met(name, function, scope)

    def _met(self, name: str, function: Function, scope: Scope) -> Any:
        """Return what a name is in a function that runs until the training ends, or the only object of that name."""
        frames = [frame for frame in self._running.get(scope.path, ()) if _is_of(frame, function)]
        is_lasting = len(frames) == 1 and (id(frames[0]) in self._lasting or self._runs_once(function))
        if is_lasting and name in self._locals[id(frames[0])]:
            return self._locals[id(frames[0])][name]
        objects = list(self._objects.get(name, {}).values())
        if not objects or name in ("self", "cls"):
            raise Unknown
        return _only(objects)

    def _runs_once(self, function: Function, inside: frozenset[str] = frozenset()) -> bool:
        """Return whether one call makes the function run, which no loop and no other function repeats."""
        calls = self._calls.get(function.name, [])
        if len(calls) != 1 or function.name in self._handed_on or calls[0][1].is_repeated:
            return False
        callers = [one for one in calls[0][1].owners if isinstance(one, Function)]
        inside |= {function.name}
        return all(one.name not in inside and self._runs_once(one, inside) for one in callers)

    def _passed(self, name: str, function: Function, scope: Scope) -> Any:
        """Return what every call gives a parameter of a function that is not running, or its default value."""
        is_made = bool(scope.owners) and isinstance(scope.owners[-1], ast.ClassDef) and function.name == "__init__"
        known_as = scope.owners[-1].name if is_made else function.name
        calls = self._calls.get(known_as, [])
        if not calls or scope.depth >= _DEEPEST or len(self._functions.get(known_as, [])) != 1:
            raise Unknown
        if known_as in self._handed_on:  # who calls it then, and with what, the text does not tell
            raise Unknown
        is_method = bool(scope.owners) and isinstance(scope.owners[-1], ast.ClassDef)
        values = []
        for call, place in calls:
            given, is_default = argument_of(function, name, call, 1 if is_method else 0)
            where = scope if is_default else place
            values.append(self._any(given, replace(where, depth=scope.depth + 1)))
        return _only(values)

    def _any(self, node: ast.expr, scope: Scope) -> Any:
        """Return what an expression is, also where that is an object."""
        is_place = isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
        return self._object(node, scope) if is_place else self.value(node, scope)

    def _bindings(self, scope: Function | ast.Module) -> Mapping[str, int]:
        """Return how often a function, or the top of a file, gives each name a value; a loop does so more than once."""
        if scope not in self._given:
            found: dict[str, int] = {}
            if isinstance(scope, Function):
                found = dict.fromkeys(parameters_of(scope), 1)
            for name, times in names_given(scope.body):
                found[name] = found.get(name, 0) + times
            if isinstance(scope, ast.Module):
                for name in (name for node in walked(scope) if isinstance(node, ast.Global) for name in node.names):
                    found[name] = found.get(name, 0) + 1
            self._given[scope] = found
        return self._given[scope]


def _is_made_here(node: ast.Attribute, scope: Scope) -> bool:
    """Return whether an object is given an attribute as it is made."""
    is_init = bool(scope.owners) and getattr(scope.owners[-1], "name", "") == "__init__"
    return is_init and isinstance(node.value, ast.Name) and node.value.id == "self"


def _only(values: list[Any]) -> Any:
    """Return the value that all of them are."""
    if any(one is not values[0] and not _is_same(one, values[0]) for one in values):
        raise _Differs
    return values[0]


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and type(one) in _PLAIN and bool(one == other)


def _item(owner: Any, key: Any) -> Any:
    """Return what a dictionary or a list has, neither of which runs code of the program."""
    if type(owner) is dict and type(key) in _PLAIN and key in owner:
        return owner[key]
    if type(owner) in (list, tuple) and type(key) is int and -len(owner) <= key < len(owner):
        return owner[key]
    raise Unknown


def _attribute(owner: Any, name: str) -> Any:
    """Return what an object has under a name, without running code of its class."""
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        raise Unknown from None
    if name not in found:
        raise Unknown
    return found[name]


def _modules_of(value: Any) -> Iterable[Any]:
    """Return the modules of a network, one level down; empty for any other object."""
    try:
        found = object.__getattribute__(value, "__dict__").get("_modules")
    except AttributeError:
        return ()
    return [one for one in found.values() if one is not None] if isinstance(found, dict) else ()


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN or (type(value) in _SEVERAL and all(type(one) in _PLAIN for one in value)):
        return value
    raise Unknown


def _is_of(frame: FrameType, function: Function) -> bool:
    return frame.f_code.co_name == function.name and frame.f_code.co_firstlineno in lines_of(function)


def _is_in_a_loop(frame: FrameType, function: Function) -> bool:
    loops = [node for part in function.body for node in walked(part) if isinstance(node, LOOPS)]
    return any(loop.lineno <= frame.f_lineno <= (loop.end_lineno or loop.lineno) for loop in loops)


def _globals_of(path: str) -> Mapping[str, Any]:
    """Return the names at the top of a file that was loaded; empty where no module is known to be of it."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__dict__.get("__file__") == path:
            return module.__dict__
    return {}
