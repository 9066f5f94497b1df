"""Random draws: each is read, and has the chance that its name says."""

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ..bindings import Function, called, functions_in, parameters_of
from ..expressions import assignments, calls_in, is_name, name_of, names_in, words_in
from ..names import EVALUATION, words_of
from ..trees import walked
from .pattern import Found, Pattern

_DRAWS: Final = ("rand", "random", "rand_like", "uniform")
_NUMBERS: Final = ("randint", "randrange", "integers", "beta", "uniform", "random_integers")
_DROPS: Final = frozenset({"drop", "drops", "dropped"})
_KEEPS: Final = frozenset({"keep", "keeps", "kept"})
#: Calls that make a generator of a seed, and of distributions that draw.
_SEEDERS: Final = ("manual_seed", "default_rng", "RandomState", "Random")
#: Words of numbers that stand on a folder or a file, and decide nothing.
_LABELS: Final = frozenset({"nr", "id", "uid", "port", "run", "tag", "salt", "experiment"})
_SAMPLES: Final = ("sample", "rsample")
_PREPARING: Final = frozenset(
    {"make", "build", "load", "data", "dataset", "init", "reset", "plot", "report", "show", "probe", "generate"}
)


def _drawn_and_unread(tree: ast.AST) -> Iterator[Found]:
    """A number that is drawn decides something: one that nothing reads was to be used."""
    for function in functions_in(tree):
        reads = Counter(
            one.id for one in walked(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
        )
        outside = {name for one in walked(function) if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
        for name, value, line in _named(function):
            call = _without_item(value)
            is_drawn = called(call) in _NUMBERS and not name.startswith("_") and name not in outside
            is_drawn &= words_of(name).isdisjoint(_LABELS)
            if is_drawn and not reads[name] and "locals" not in reads and isinstance(value, ast.expr):
                yield "formula", f"{name} = {ast.unparse(value)} is drawn, and nothing reads it", line


def _named(function: ast.AST) -> Iterator[tuple[str, ast.expr, int]]:
    """Yield plain names, one by one, that statements give values; no attributes, which others may read."""
    for node in walked(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value, node.lineno


def _without_item(node: ast.expr) -> ast.expr:
    """Return the draw itself, of `int(draw)` and `draw.item()`."""
    if isinstance(node, ast.Call) and called(node) == "int" and node.args:
        node = node.args[0]
    if isinstance(node, ast.Call) and called(node) == "item" and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


def _dropped_by_the_rest(tree: ast.AST) -> Iterator[Found]:
    """With chance p something is dropped where a draw is below p, and kept where it is above."""
    for name, value, line in assignments(tree):
        test = value  # as numbers, a mask of what is kept may be called a drop
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or next(calls_in(test.left, *_DRAWS), None) is None:
            continue
        limit = words_in(test.comparators[0])
        is_below = isinstance(test.ops[0], ast.Lt | ast.LtE)
        words = words_of(name)
        of_drop = (
            bool(limit & (_DROPS | {"uncond", "dropout"}))
            and not limit & _KEEPS
            and "1 -" not in ast.unparse(test.comparators[0])
        )
        is_turned = (bool(words & _DROPS) and not is_below) or (bool(words & _KEEPS) and is_below)
        if of_drop and is_turned and name_of(test.comparators[0]):
            yield "formula", f"{name} = {ast.unparse(value)} has the chance 1 - {name_of(test.comparators[0])}", line


def _slot_always_there(tree: ast.AST) -> Iterator[Found]:
    """A reservoir draws from all that was seen, so that most new samples find no place (Vitter 1985, algorithm R)."""
    for function in functions_in(tree):
        drawn = {name: (value, line) for name, value, line in _named(function)}
        for node in walked(function):
            if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare) or len(node.test.ops) != 1:
                continue
            name = name_of(node.test.left)
            value = drawn[name][0] if name in drawn else None
            if not isinstance(value, ast.Call) or called(value) not in ("randrange", "randint", "integers"):
                continue
            is_inclusive = called(value) == "randint" and ast.unparse(value.func) == "random.randint"
            limit, above = ast.unparse(node.test.comparators[0]), ast.unparse(value.args[-1]) if value.args else ""
            if isinstance(node.test.ops[0], ast.Lt) and limit == above and not is_inclusive and not value.keywords:
                words = f"{ast.unparse(node.test)} always holds: {name} is drawn from {ast.unparse(value)}"
                yield "formula", words, node.lineno


def _seeded_in_the_loop(tree: ast.AST) -> Iterator[Found]:
    """A generator that each step makes anew from one seed, named or not, draws the same batch again."""
    for loop in walked(tree):
        if not isinstance(loop, ast.For | ast.While):
            continue
        passes = [at for at, one in enumerate(loop.body) if next(calls_in(one, "backward"), None) is not None]
        before = loop.body[: passes[0]] if passes else []
        names = [one for one in walked(loop) if isinstance(one, ast.Name)]
        varying = {one.id for one in names if isinstance(one.ctx, ast.Store)}
        read = {one.id for one in names if isinstance(one.ctx, ast.Load)}
        for statement in (one for one in before if isinstance(one, ast.Assign)):
            value = statement.value
            if words_in(value) & EVALUATION:
                continue
            for call in calls_in(value, *_SEEDERS):
                draws = call is not value or name_of(statement.targets[0]) in read
                if draws and _is_new_generator(call) and call.args and not names_in(call) & varying:
                    words = f"{ast.unparse(value)} begins with the same seed in each step: its numbers are the same"
                    yield "formula", words, statement.lineno


def _is_new_generator(call: ast.Call) -> bool:
    is_method = isinstance(call.func, ast.Attribute) and called(call.func.value) == "Generator"
    return is_method if called(call) == "manual_seed" else True


def _rows_in_few_bits(tree: ast.AST) -> Iterator[Found]:
    """A share in bfloat16 or float16 has some hundred or two thousand values: no more rows are ever drawn."""
    for call in calls_in(tree, "long", "int"):
        product = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
            continue
        for draw in calls_in(product, "rand"):
            kind = next((name_of(one.value) for one in draw.keywords if one.arg == "dtype"), "")
            if kind in ("bfloat16", "float16", "half"):
                words = f"{ast.unparse(call)} draws numbers from the few values of {kind}: most rows are never reached"
                yield "formula", words, call.lineno


def _steps_with_another_draw(tree: ast.AST) -> Iterator[Found]:
    """The action that is stored, with its log-probability, is the one that the environment gets."""
    for function in [*functions_in(tree), tree]:
        draws = {ast.unparse(value): name for name, value, _ in assignments(function) if called(value) in _SAMPLES}
        for call in calls_in(function, "step"):
            given = call.args[0] if call.args else None
            text = ast.unparse(given) if isinstance(given, ast.Call) and called(given) in _SAMPLES else ""
            stored = draws.get(text, "")
            scored = any(stored in names_in(one) for one in calls_in(function, "log_prob")) if stored else False
            if scored:
                words = f"step({text}) draws another action than {stored}, whose log-probability is taken"
                yield "formula", words, call.lineno
                return


def _seeded_in_each_call(tree: ast.AST) -> Iterator[Found]:
    """A function of each step that makes its generator anew from one seed draws the same numbers in every step."""
    functions = {one.name: one for one in walked(tree) if isinstance(one, Function)}
    training = {name for name, one in functions.items() if next(calls_in(one, "backward"), None) is not None}
    for loop in (one for one in walked(tree) if isinstance(one, ast.For | ast.While)):
        always = [one for one in loop.body if not isinstance(one, ast.If)]
        asked = {called(one) for statement in always for one in walked(statement) if isinstance(one, ast.Call)}
        if "backward" not in asked and not asked & training:
            continue
        for name in sorted(asked & functions.keys()):
            function = functions[name]
            if (
                words_of(name) & (EVALUATION | _PREPARING)
                or name == "sample"
                or any(isinstance(one, ast.Yield) for one in walked(function))
            ):
                continue
            for call in calls_in(function, *_SEEDERS):
                is_fixed = not names_in(call) & (set(parameters_of(function)) - {"self"}) and _is_fixed(call)
                if is_fixed and _is_new_generator(call) and _draws_from(function, call):
                    words = (
                        f"{name} makes {ast.unparse(call)} anew in each call: its numbers are the same in every step"
                    )
                    yield "formula", words, call.lineno


def _is_fixed(call: ast.Call) -> bool:
    """Return whether a seed is a number, a constant of the program, or one that an object keeps."""
    seed = call.args[0] if len(call.args) == 1 else None
    is_kept = isinstance(seed, ast.Attribute) and is_name(seed.value, "self")
    return isinstance(seed, ast.Constant) or is_kept or (isinstance(seed, ast.Name) and seed.id.isupper())


def _draws_from(function: Function, call: ast.Call) -> bool:
    """Return whether a function draws from the generator that a call makes: by its name, or as an argument."""
    names = {name for name, value, _ in assignments(function) if value is call}
    is_given = any(
        one.arg == "generator" and one.value is call for one in walked(function) if isinstance(one, ast.keyword)
    )
    return is_given or any(
        isinstance(one, ast.Name) and one.id in names and isinstance(one.ctx, ast.Load) for one in walked(function)
    )


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _drawn_and_unread,
    _dropped_by_the_rest,
    _slot_always_there,
    _seeded_in_the_loop,
    _steps_with_another_draw,
    _rows_in_few_bits,
    _seeded_in_each_call,
)
