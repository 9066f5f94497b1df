"""What a program's text computes, or is given, and never reads: masks, weights, ends of episodes, settings, layers."""

import ast
import re
import symtable
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..check_result import CheckResult, broken, held
from .bindings import (
    Binding,
    Function,
    Reads,
    bindings_of,
    called,
    is_given,
    is_unread,
    lines_of,
    scopes_in,
)
from .expressions import is_name
from .interfaces import is_interface, shared_methods
from .known_values import option_of
from .module_places import NOWHERE, ModulePlaces
from .names import (
    DISCOUNTS,
    EVALUATION,
    RETURNS,
    REWARDS,
    Purpose,
    ends_transition,
    is_action,
    prepares,
    purpose_of,
    words_of,
)
from .passed_over import changed_copies, parts_for_training, replayed_actions
from .reach import Place, Reach
from .trees import walked
from .unread_products import is_method, is_needed_by_loss, is_product

READ: Final = "values_are_read"
_CLAIM = "the program reads the masks, weights, settings and layers that its text gives values"
_MOST_TOLD = 4
#: Words of parameters that are lists of names, and settings that have a place in the program and are no leftovers: the
#: plan of a rate, and the spread by which data are scaled.
_LISTS: Final = frozenset({"list", "lists", "names", "columns", "cols"})
_PLACED: Final = frozenset({"std", "stdev", "spread", "scheduler", "sched", "schedule", "plan"})
#: Functions whose result is an order of samples, and the classes that change a rate.
_ORDERS: Final = frozenset({"randperm", "permutation"})
_SCHEDULES: Final = re.compile(r"(LR|Scheduler|WarmRestarts|get_\w*schedule\w*)$")
#: Functions in which a part of a result is left unread for good reasons, and those in which terms of a loss are.
_ASIDE: Final = re.compile(
    r"eval|test|valid|predict|generat|sampl|infer|plot|show|demo|visual|log|render", re.IGNORECASE
)
_ACTING: Final = re.compile(r"(^|_)(act|acts|action|choose|select|explore|play|rollout|collect)(_|$)")
#: What is no layer, though its name begins like a class: what stands where there is none, and what a model is built by.
_NO_LAYERS: Final = re.compile(r"^Identity$|(Config|Tokenizer|Processor|Namespace)$")
_LAST: Final = frozenset({"Sigmoid", "Softmax", "LogSoftmax"})
#: Words of what is computed of the ends of episodes, which then need not be read again.
_BEHIND_ENDS: Final = frozenset({"target", "targets", "adv", "advantage", "advantages", "ret", "returns", "gae"})
#: Methods whose answers nobody needs whole.
_PARTIAL: Final = frozenset({"step", "reset", "split", "topk", "max", "min", "sort", "unique", "meshgrid"})
#: Functions that are called for what they do, and give a loss for those who want it.
_DOERS: Final = re.compile(r"train|epoch|step|fit|run|update|eval|test|valid")
#: Functions that make a value fit for use.
_NORMALISING: Final = frozenset({"softmax", "normalize", "masked_fill", "sigmoid", "dropout"})
#: Modules of one file from which on it is a library, and no program of its own. Our choice.
_LIBRARY: Final = 12
#: Leftovers beside the script from which on its author leaves values over, so that those in it are no trace either.
_UNTIDY: Final = 4
#: Methods by which a class answers to a framework.
_HOOKS: Final = re.compile(r"^(reset_parameters|init_weights|on_\w+|configure_\w+|test_\w*)$")


@dataclass(frozen=True, slots=True)
class UnreadValue:
    """A name that is given a value that nothing reads.

    Args:
        purpose: What a value of such a name is for.
        owner: The function or class that it belongs to; empty at the top of a file.
        file, line: Where it is given.
        is_leftover: Whether such values are left over in many programs that are fine: settings, and what is no part of
            the script itself.
    """

    name: str
    purpose: Purpose
    owner: str
    file: str
    line: int
    is_leftover: bool = False


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    tree: ast.Module
    table: symtable.SymbolTable


def unread_values(
    sources: Mapping[str, str], *, script: str = "", running: frozenset[Place] = frozenset()
) -> list[UnreadValue]:
    """Return what a program gives a value and never reads, of names that tell what the value is for.

    A name counts as read where any code of its scope, or of a function inside, loads it; an attribute, a setting or a
    function where any file of the program does. Names that begin with an underscore, and parameters that have a default
    value and are never given, are left out.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed is left out.
        script: The file that is run, of which functions are looked at as well: those of others may be there for more
            than one program.
        running: The functions that are running: what does not belong to their training is left out. Of a program that
            runs text as code nothing is known.
    """
    files = [file for path, text in sources.items() if (file := _parsed(path, text)) is not None]
    reads = Reads()
    for file in files:
        reads.visit(file.tree)
    if reads.runs_text:
        return []
    reach, shared = Reach({file.path: file.tree for file in files}, running), shared_methods(one.tree for one in files)
    found: list[UnreadValue] = []
    for file in (one for one in files if one.path == script or not _is_library(one.tree)):
        found += _of_functions(file, reads, reach, shared, is_script=file.path == script)
        found += _of_modules(file, reads, reach)
        found += _of_optimizers(file, reads, reach)
        if file.path not in reach.files or reach.is_collection:
            continue
        found += _of_the_top(file, reads, is_alone=len(files) == 1)
        found += [] if reads.takes_all else _of_settings(file, reads)
        found += _never_called(file, reads) if file.path == script and not reads.takes_all else []
    found = [replace(one, is_leftover=_is_leftover(one, script)) for one in found]
    if sum(one.is_leftover for one in found) >= _UNTIDY:
        found = [replace(one, is_leftover=True) for one in found]
    return sorted(found, key=lambda one: (one.is_leftover, one.file, one.line))


def _is_leftover(value: UnreadValue, script: str) -> bool:
    """Return whether such values are found in many programs that are fine, and are hardly ever the trace of a fault."""
    is_setting = value.purpose == "setting" and words_of(value.name).isdisjoint(_PLACED)
    return value.is_leftover or is_setting or (bool(script) and value.file != script)


def _is_library(tree: ast.Module) -> bool:
    """Return whether a file has modules for many programs: what one of them leaves unread is left over."""
    return sum(isinstance(one, ast.ClassDef) and _is_module(one) for one in walked(tree)) >= _LIBRARY


def _is_module(node: ast.ClassDef) -> bool:
    return any("Module" in ast.unparse(base) for base in node.bases)


def _parsed(path: str, text: str) -> _File | None:
    try:
        return _File(path, ast.parse(text), symtable.symtable(text, path, "exec"))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _of_functions(
    file: _File, reads: Reads, reach: Reach, shared: frozenset[int], *, is_script: bool
) -> Iterator[UnreadValue]:
    functions = {(one.name, at): one for one in walked(file.tree) if isinstance(one, Function) for at in lines_of(one)}
    for scope in scopes_in(file.table):
        node = functions.get((scope.get_name(), scope.get_lineno()))
        if node is None or scope.get_type() != "function" or is_interface(node) or not reach.has(node):
            continue
        bindings = bindings_of(node.body)
        for symbol in scope.get_symbols():
            name = symbol.get_name()
            if symbol.is_referenced() and symbol.is_local() and not _ASIDE.search(node.name):
                yield from _normalised(file, node, name)
            if not is_unread(symbol, scope):
                continue
            if not symbol.is_parameter():
                yield from _told(file, node, name, bindings.get(name, []))
                yield from _passed_over(file, node, name, bindings)
                for line in replayed_actions(name, node, bindings.get(name, [])):
                    yield UnreadValue(name, "weight", node.name, file.path, line)
            elif is_given(node, name, reads) and id(node) not in shared:
                is_needed = prepares(name) and not is_method(node)
                is_needed |= is_script and is_needed_by_loss(name, node)
                purpose = purpose_of(name) or ("weight" if is_needed else None)
                is_list = not words_of(name).isdisjoint(_LISTS)
                is_aside = purpose == "end" and bool(_ASIDE.search(node.name))
                if purpose is not None and not is_list and not is_aside:
                    yield UnreadValue(name, purpose, node.name, file.path, node.lineno)


def _normalised(file: _File, function: Function, name: str) -> Iterator[UnreadValue]:
    """Yield a value that is normalised, or masked, and read by nothing afterwards."""
    anew = None if name.startswith("_") else _made_anew(name, function.body)
    if anew is None:
        return
    is_divided = isinstance(anew.value, ast.BinOp) and isinstance(anew.value.op, ast.Div)
    if is_divided or called(anew.value) in _NORMALISING:
        yield UnreadValue(name, "weight", function.name, file.path, anew.lineno)


def _made_anew(name: str, body: Iterable[ast.stmt]) -> ast.Assign | None:
    """Return the assignment that makes a new value of a name's last one, if nothing but such assignments reads it."""
    nodes = [one for statement in body for one in walked(statement)]
    anew = [one for one in nodes if isinstance(one, ast.Assign) and is_name(one.targets[0], name)]
    inside = {id(part) for one in anew for part in walked(one.value)}
    reads = [one for one in nodes if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)]
    if not reads or any(id(one) not in inside for one in reads):
        return None
    return next(one for one in reversed(anew) if any(is_name(part, name) for part in walked(one.value)))


def _passed_over(
    file: _File, scope: Function | ast.Module, name: str, made: Mapping[str, list[Binding]]
) -> Iterator[UnreadValue]:
    """Yield a value in whose place something else is read."""
    owner = scope.name if isinstance(scope, Function) else ""
    copies = () if _ASIDE.search(owner) or purpose_of(name) is not None else changed_copies(name, scope.body)
    for line in (*copies, *parts_for_training(name, scope, made)):
        yield UnreadValue(name, "weight", owner, file.path, line)


def _of_the_top(file: _File, reads: Reads, *, is_alone: bool) -> Iterator[UnreadValue]:
    elsewhere = set[str]() if is_alone else reads.attributes | reads.imported
    bindings = bindings_of(file.tree.body)
    for symbol in file.table.get_symbols():
        name = symbol.get_name()
        if name not in elsewhere and is_unread(symbol, file.table):
            yield from _told(file, None, name, bindings.get(name, []))
            yield from _passed_over(file, file.tree, name, bindings)


def _of_settings(file: _File, reads: Reads) -> Iterator[UnreadValue]:
    """Yield options of the command line and fields of classes of settings that no file of the program reads."""
    for node in walked(file.tree):
        options = (
            [(option_of(node), node.lineno)] if isinstance(node, ast.Call) and called(node) == "add_argument" else []
        )
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            options = [
                (one.target.id, one.lineno)
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            ]
        for name, line in options:
            if name not in reads.attributes and purpose_of(name) is not None:
                owner = node.name if isinstance(node, ast.ClassDef) else ""
                yield UnreadValue(name, "setting", owner, file.path, line)


def _of_modules(file: _File, reads: Reads, reach: Reach) -> Iterator[UnreadValue]:
    """Yield layers and settings that a module keeps, and that no file of the program reads."""
    for node in walked(file.tree):
        if not isinstance(node, ast.ClassDef) or not reach.has(node):
            continue
        if not _is_module(node):
            continue
        plain = Counter(one.id for one in walked(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
        for one in walked(node):
            name = _own_attribute(one)
            if not isinstance(one, ast.Assign) or name is None or name in reads.attributes:
                continue
            if isinstance(one.value, ast.Name) and plain[one.value.id] > 1:
                continue  # kept as well as used: what it is for happens
            by = called(one.value)
            is_layer = by[:1].isupper() and not _NO_LAYERS.search(by)
            purpose: Purpose | None = "layer" if is_layer else purpose_of(name)
            is_begun = isinstance(one.value, ast.Constant) or by == "zeros"  # to be added to, or left over
            if purpose is not None and not name.startswith("_") and not (purpose == "term" and is_begun):
                is_last = by in _LAST or by.endswith("Loss")  # where the loss takes scores, or is elsewhere
                yield UnreadValue(f"self.{name}", purpose, node.name, file.path, one.lineno, is_leftover=is_last)


def _of_optimizers(file: _File, reads: Reads, reach: Reach) -> Iterator[UnreadValue]:
    """Yield what an optimizer of the program's own keeps for each parameter, and no file of the program reads."""
    for node in walked(file.tree):
        if not isinstance(node, ast.ClassDef) or not any("Optimizer" in ast.unparse(base) for base in node.bases):
            continue
        kept = [one for one in walked(node) if isinstance(one, ast.Subscript) and "state" in ast.unparse(one.value)]
        named = [(str(one.slice.value), one) for one in kept if isinstance(one.slice, ast.Constant)]
        loaded = {name for name, one in named if isinstance(one.ctx, ast.Load)}
        for name, one in named:
            if isinstance(one.ctx, ast.Store) and name not in loaded and reads.strings[name] == 1 and reach.has(node):
                yield UnreadValue(f"state[{name!r}]", "weight", node.name, file.path, one.lineno)


def _never_called(file: _File, reads: Reads) -> Iterator[UnreadValue]:
    for node in walked(file.tree):
        if not isinstance(node, Function) or node.decorator_list or _HOOKS.match(node.name):
            continue
        if is_action(node.name) and node.name not in reads.attributes | reads.names:
            yield UnreadValue(node.name, "function", "", file.path, node.lineno)


def _told(file: _File, function: Function | None, name: str, bindings: Iterable[Binding]) -> Iterator[UnreadValue]:
    """Yield the unread value of a function, or of the top of a file, if it is there for a purpose."""
    owner = "" if function is None else function.name
    for binding in bindings:
        purpose = _purpose_of_local(name, owner, binding)
        is_end = purpose == "end" or (purpose == "mask" and "done" in words_of(name))
        if is_end and function is not None and _needs_no_end(binding, function):
            purpose = None
        if purpose is None and function is not None and is_product(name, binding, function):
            purpose = "weight"
        if purpose is not None:
            is_plain = purpose == "term" and isinstance(binding.value, ast.Call) and _is_plain_kind(binding.value)
            yield UnreadValue(name, purpose, owner, file.path, binding.line, is_leftover=is_plain)
            return


def _is_plain_kind(value: ast.Call) -> bool:
    """Return whether a loss is made of a class as it comes: the model that brings its own leaves it over."""
    return called(value)[:1].isupper() and not value.args and not value.keywords


def _needs_no_end(binding: Binding, function: Function) -> bool:
    """Return whether the end of an episode has no use here: a target is beside it, or no reward is, or is read."""
    beside = set[str]().union(*map(words_of, binding.beside))
    if binding.is_part and beside.isdisjoint(REWARDS | RETURNS | DISCOUNTS):
        return True
    read = {one.id for one in walked(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    rewards = {one for one in binding.beside if words_of(one) & REWARDS}
    return not beside.isdisjoint(_BEHIND_ENDS) or (bool(rewards) and rewards.isdisjoint(read))


def _purpose_of_local(name: str, function: str, binding: Binding) -> Purpose | None:
    by = called(binding.value)
    if not binding.is_part and (by in _ORDERS or _SCHEDULES.search(by)):
        return "order" if by in _ORDERS else "plan"
    purpose = purpose_of(name) or ("end" if ends_transition(name, binding.beside) else None)
    if purpose is None or (binding.is_part and not binding.is_loop and by in _PARTIAL):
        return None
    is_side = bool(_ASIDE.search(function))
    if (
        _is_empty(binding.value)
        or _says_nothing(binding.value, purpose)
        or (binding.is_part and purpose == "mask" and is_side)
    ):
        return None
    if purpose == "weight" and not words_of(name).isdisjoint(EVALUATION):
        return None
    if binding.is_part and purpose in ("term", "weight"):  # `output, weights = attention(x)`, `logits, loss = model(x)`
        is_meant = is_side or binding.is_loop or purpose == "weight" or "loss" in words_of(name)
        return None if is_meant else purpose
    is_constant = isinstance(binding.value, ast.Constant | ast.UnaryOp | ast.BinOp)
    if purpose == "setting" or (not function and is_constant):  # other plain numbers at the top are sizes and tokens
        return purpose if purpose == "setting" and not function and is_constant else None
    if purpose == "term":
        is_computed = isinstance(binding.value, ast.Call | ast.BinOp | ast.UnaryOp) and by != "float"
        is_side |= _ACTING.search(function) is not None
        return purpose if is_computed and not is_side and not _DOERS.search(by) else None
    return purpose


def _says_nothing(value: ast.expr | None, purpose: Purpose) -> bool:
    """Return whether what is unread would change nothing: an end before the first step, weights that are all one."""
    if purpose == "end":
        return isinstance(value, ast.Constant)
    parts = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return purpose == "weight" and all(isinstance(one, ast.Constant) and one.value == 1 for one in parts)


def _is_empty(value: ast.expr | None) -> bool:
    """Return whether a value is a container to be filled, as of a curve that nobody draws any more."""
    if isinstance(value, ast.Call) and called(value) in ("list", "dict", "set", "deque", "defaultdict", "OrderedDict"):
        return not value.args or called(value) == "defaultdict" or _is_empty(value.args[0])
    parts = value.elts if isinstance(value, ast.List | ast.Set) else value.keys if isinstance(value, ast.Dict) else None
    return parts == []


def _own_attribute(node: ast.AST) -> str | None:
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return target.attr if is_own and isinstance(target, ast.Attribute) else None


def words_for(value: UnreadValue) -> str:
    """Return what is known of the value, as a clause."""
    place = f"{Path(value.file).name}:{value.line}"
    if value.purpose == "function":
        return f"the function {value.name} ({place}) is never called"
    kinds = {"layer": "a layer", "setting": "a setting", "plan": "a setting"}
    kind = kinds.get(value.purpose, "a value")
    owner = f" of {value.owner}" if value.owner else ""
    return f"{value.name}, {kind}{owner} ({place}), is read by nothing"


def values_are_read(
    sources: Mapping[str, str],
    *,
    script: str = "",
    running: frozenset[Place] = frozenset(),
    places: ModulePlaces = NOWHERE,
) -> CheckResult:
    """Return whether a program reads the masks, weights, settings and layers that its text gives values."""
    found = [
        one
        for one in unread_values(sources, script=script, running=running)
        if one.purpose != "layer" or places.has_class(one.file, one.owner)  # what another model leaves out is its own
    ]
    if not found:
        return held(READ, _CLAIM)
    words = "; ".join(words_for(one) for one in found[:_MOST_TOLD])
    more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    where = places.site_of(found[0].file, found[0].line)
    numbers = {"values": float(len(found)), "leftovers": float(sum(one.is_leftover for one in found))}
    return broken(READ, _CLAIM, words + more, subject=found[0].name, **numbers).at(where)
