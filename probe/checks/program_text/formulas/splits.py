"""What is fitted to the data of a training is given to the other data as it is, and not fitted to them anew."""

import ast
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from ..bindings import Function, called, goes_backward, names_given, parameters_of
from ..expressions import assignments, blocks_in, calls_in, is_name, name_of, names_in, words_in
from ..known_values import values_of_names
from ..names import EVALUATION, TRAINING, words_of
from ..trees import walked
from .pattern import Found, Pattern

_OTHERS: Final = EVALUATION | {"heldout"}
#: Words of what gives names numbers, or columns a meaning of their own; another scale alone would hardly matter.
_NUMBERING: Final = frozenset(
    {
        "encoder", "vectorizer", "vectoriser", "tokenizer", "tokeniser", "vocab", "vocabulary", "binarizer", "indexer",
        "pca", "svd", "le", "enc", "ohe", "lookup",
    }
)  # fmt: skip
_VOCABULARIES: Final = frozenset({"vocab", "vocabs", "vocabulary", "vocabularies", "lookup", "codes", "categories"})
_FITS: Final = ("fit_transform", "fit", "fit_on_texts", "adapt", "build_vocab", "train_from_iterator")
_FOLDS: Final = frozenset({"fold", "folds", "kfold", "kf", "skf", "kfolds"})
_OPTIMIZERS: Final = frozenset({"opt", "optim", "optimizer", "optimiser"})
_MODELS: Final = frozenset({"model", "net", "network", "clf", "classifier", "regressor"})
#: Calls by which a fold begins with other weights.
_BEGIN_ANEW: Final = ("load_state_dict", "apply", "reset_parameters", "deepcopy", "copy_", "init_weights", "clone")
#: Calls that give a name a number where it has none yet.
_NEW: Final = ("setdefault",)
#: Words of methods that prepare what they are given.
_VALIDATION: Final = frozenset({"val", "valid", "validation", "dev"})
_CHOICES: Final = frozenset({"threshold", "thresholds", "thr", "thresh", "temperature", "cutoff", "cutoffs"})
_CHOOSING: Final = frozenset(
    {"best", "find", "tune", "pick", "choose", "select", "fit", "search", "optimize", "optimal"}
)
#: Words of links, and of what makes a graph of them that messages pass along.
_LINKS: Final = frozenset({"edge", "edges", "link", "links", "pos"})
_PASSES: Final = frozenset({"adj", "adjacency", "normalize", "normalise", "normalized", "normalised", "laplacian"})
_SETS: Final = frozenset({"loader", "set", "ds", "dl", "dataset", "data", "x", "inputs", "iter", "split"})
_TESTS: Final = frozenset({"test", "tst", "te"})
_USES: Final = frozenset({"transform", "encode", "apply", "call", "convert", "prepare"})
_CUTS: Final = ("randperm", "permutation", "train_test_split", "random_split")
_SCALERS: Final = frozenset({"scaler", "standardizer", "standardiser", "normalizer", "normaliser", "sc", "norm"})
_LIBRARIES: Final = frozenset({"torch", "np", "numpy"})
_JOINS: Final = ("cat", "concat", "concatenate", "vstack")


def _fitted_anew(tree: ast.AST) -> Iterator[Found]:
    """An encoder that is fitted to the test data gives a name another number than the training knows."""
    fits = [(call, _split_of(call.args[0]), _owner(call)) for call in calls_in(tree, *_FITS) if call.args]
    trained = {owner for _, split, owner in fits if split == "training"}
    number = _that_number(tree)
    for call, split, owner in fits:
        is_same = owner in trained or any(words_of(owner) & words_of(other) & _NUMBERING for other in trained)
        if split == "others" and is_same and (owner in number or words_of(owner) & _NUMBERING):
            yield "shift", f"{ast.unparse(call)} fits {owner} anew to data that are no training data", call.lineno


def _that_number(tree: ast.AST) -> set[str]:
    """Return the names of objects of the program's own classes that keep a vocabulary."""
    keep = {one.name for one in walked(tree) if isinstance(one, ast.ClassDef) and words_in(one) & _VOCABULARIES}
    return {name for name, value, _ in assignments(tree) if called(value) in keep}


def _numbered_anew(tree: ast.AST) -> Iterator[Found]:
    """Names are numbered once: a class or function that numbers what it is given must not begin anew for each split."""
    classes = {node.name for node in walked(tree) if isinstance(node, ast.ClassDef) and _gives_numbers(node)}
    functions = {node.name for node in walked(tree) if isinstance(node, Function) and _numbers_its_argument(node)}
    calls: dict[str, list[tuple[ast.Call, str]]] = {}
    for call in (one for one in walked(tree) if isinstance(one, ast.Call) and one.args):
        split = _split_of(call.args[0])
        has_new = any(isinstance(one, ast.Call) and called(one) in classes and not one.args for one in call.args[1:])
        if split and (has_new or called(call) in functions):
            calls.setdefault(called(call), []).append((call, split))
    for of_name in calls.values():
        others = [call for call, split in of_name if split == "others"]
        if others and any(split == "training" for _, split in of_name):
            words = f"{ast.unparse(others[0])} numbers its names anew, and not as those of the training data"
            yield "shift", words, others[0].lineno


def _encoded_anew(tree: ast.AST) -> Iterator[Found]:
    """Both splits are encoded by one numbering: `encode(test, numbers_of(test))` gives a name another number."""
    makers = {node.name for node in walked(tree) if isinstance(node, Function) and _gives_numbers(node)}
    known = values_of_names(tree)
    calls: dict[str, list[tuple[ast.Call, str, set[str]]]] = {}
    for call in (one for one in walked(tree) if isinstance(one, ast.Call) and len(one.args) > 1):
        split = _split_of(call.args[0])
        made = [value for one in call.args[1:] for value in (known.get(name_of(one), []) if name_of(one) else [one])]
        numberings = [one for one in made if isinstance(one, ast.Call) and called(one) in makers and one.args]
        numbered = {_split_of(one.args[0]) for one in numberings}
        if split and numbered:
            calls.setdefault(called(call), []).append((call, split, numbered))
    for of_name in calls.values():
        trained = any(split == "training" and "training" in numbered for _, split, numbered in of_name)
        for call, split, numbered in of_name:
            if trained and split == "others" and numbered == {"others"}:
                yield (
                    "shift",
                    f"{ast.unparse(call)} numbers its names anew, and not as those of the training",
                    call.lineno,
                )


def _fitted_by_each_use(tree: ast.AST) -> Iterator[Found]:
    """What encodes data does not fit itself to them: the test data would be numbered anew."""
    for owner in (one for one in walked(tree) if isinstance(one, ast.ClassDef)):
        methods = [one for one in owner.body if isinstance(one, Function)]
        fits = {
            one.name for one in methods if words_of(one.name) & {"fit"} and (_gives_numbers(one) or _makes_codes(one))
        }
        for method in (one for one in methods if words_of(one.name) & _USES and not words_of(one.name) & {"fit"}):
            for statement in (one for one in method.body if isinstance(one, ast.Expr) and fits):
                for call in calls_in(statement, *fits):
                    words = (
                        f"{owner.name}.{method.name} calls {ast.unparse(call.func)}: it numbers names anew at each use"
                    )
                    yield "shift", words, call.lineno


def _makes_codes(function: Function) -> bool:
    """Return whether a function numbers what it is given by a comprehension over `enumerate`."""
    return any(isinstance(one, ast.DictComp) and next(calls_in(one.generators[0].iter, "enumerate"), None) is not None
               for one in walked(function))  # fmt: skip


def _folds_share_a_model(tree: ast.AST) -> Iterator[Found]:
    """Each fold of a cross-validation trains a model of its own (Hastie et al. 2009, section 7.10.2).

    A model that goes on from fold to fold has been trained on what it is validated with.
    """
    trainers = {
        node.name
        for node in walked(tree)
        if isinstance(node, Function) and next(calls_in(node, "backward"), None) is not None
    }
    for loop in walked(tree):
        if not isinstance(loop, ast.For) or not (words_in(loop.iter) | words_in(loop.target)) & _FOLDS:
            continue
        if next(calls_in(loop, *_BEGIN_ANEW), None) is not None:
            continue
        given = {name for name, _ in names_given(loop.body)}
        kept = [name for name in _trained_in(loop, trainers) if name not in given]
        if kept:
            words = f"no fold makes {kept[0]} anew: its model was trained on what it is validated with"
            yield "formula", words, loop.lineno


def _trained_in(loop: ast.For, trainers: Container[str]) -> Iterator[str]:
    """Yield the names of optimizers that a loop steps itself, and of models that it hands to functions that train."""
    has_backward = goes_backward(loop)
    for call in (one for one in walked(loop) if isinstance(one, ast.Call)):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if has_backward and called(call) == "step" and isinstance(owner, ast.Name) and words_of(owner.id) & _OPTIMIZERS:
            yield owner.id
        elif called(call) in trainers:
            yield from (one.id for one in call.args if isinstance(one, ast.Name) and words_of(one.id) & _MODELS)


def _split_of(node: ast.expr) -> str:
    """Return which data an expression names: `training`, `others`, or neither."""
    words = set[str]().union(*(words_of(one.id) for one in walked(node) if isinstance(one, ast.Name)))
    words |= set[str]().union(*(words_of(one.attr) for one in walked(node) if isinstance(one, ast.Attribute)))
    is_training, is_other = bool(words & TRAINING), bool(words & _OTHERS)
    return "training" if is_training and not is_other else "others" if is_other and not is_training else ""


def _owner(call: ast.Call) -> str:
    """Return the name of what is fitted, `encoder` of `self.encoder.fit(x)`, or its class."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, ast.Call):
        return called(owner)
    return name_of(owner)


def _gives_numbers(node: ast.AST) -> bool:
    """Return whether a class, or a function, numbers names in the order in which they come."""
    return any(
        len(call.args) == 2 and isinstance(call.args[1], ast.Call) and called(call.args[1]) == "len"
        for call in calls_in(node, *_NEW)
    ) or any(_numbers_next(one) for one in walked(node))


def _numbers_next(node: ast.AST) -> bool:
    """Return whether a statement is `numbers[word] = len(numbers)`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
        return False
    own, value = ast.unparse(node.targets[0].value), node.value
    return isinstance(value, ast.Call) and ast.unparse(value) == f"len({own})"


def _numbers_its_argument(function: Function) -> bool:
    """Return whether a function numbers the values of its first parameter, and keeps the numbers to itself."""
    names = [name for name in parameters_of(function) if name != "self"]
    if not names:
        return False
    for node in walked(function):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and _is_numbering(node.value, names[0])
        ):
            returned = [one for one in walked(function) if isinstance(one, ast.Return) and one.value is not None]
            return not any(_gives_away(one.value, node.targets[0].id) for one in returned if one.value is not None)
    return False


def _is_numbering(value: ast.expr, name: str) -> bool:
    """Return whether an expression is `{word: i for i, word in enumerate(sorted(set(name)))}`, or the like."""
    if not isinstance(value, ast.DictComp) or len(value.generators) != 1:
        return False
    source = value.generators[0].iter
    is_counted = isinstance(source, ast.Call) and called(source) == "enumerate"
    has_set = next(calls_in(source, "set", "unique"), None) is not None
    return is_counted and has_set and any(isinstance(one, ast.Name) and one.id == name for one in walked(source))


def _gives_away(returned: ast.expr, name: str) -> bool:
    """Return whether a function returns the dictionary of this name itself, alone or beside others."""
    parts = returned.elts if isinstance(returned, ast.Tuple) else [returned]
    return any(isinstance(one, ast.Name) and one.id == name for one in parts)


def _chosen_on_the_test(tree: ast.AST) -> Iterator[Found]:
    """Thresholds and temperatures are chosen on validation data (Hastie et al. 2009, section 7.2)."""
    if not any(isinstance(one, ast.Name) and words_of(one.id) & _VALIDATION for one in walked(tree)):
        return
    for name, value, line in assignments(tree):
        given = set[str]().union(*(words_in(one) for one in value.args)) if isinstance(value, ast.Call) else set[str]()
        is_choice = bool(words_of(name) & _CHOICES) and bool(words_in(getattr(value, "func", None)) & _CHOOSING)
        if is_choice and given & {"test", "te", "tst"} and not given & _VALIDATION:
            yield "shift", f"{name} = {ast.unparse(value)} is chosen on the data that are to judge it", line


def _edges_of_the_test(tree: ast.AST) -> Iterator[Found]:
    """Links that are to be predicted pass no messages (Zhang and Chen 2018, arXiv:1802.09691, section 4)."""
    known = values_of_names(tree)
    wholes = [_whole_of(name, known) for name in known if words_of(name) & TRAINING and words_of(name) & _LINKS]
    held = {_whole_of(name, known) for name in known if words_of(name) & _OTHERS and words_of(name) & _LINKS}
    for whole in {one for one in wholes if one and one in held}:
        calls = [call for call in walked(tree) if isinstance(call, ast.Call) and words_of(called(call)) & _PASSES]
        given = [{one.id for part in call.args for one in walked(part) if isinstance(one, ast.Name)} for call in calls]
        if any(names & {name for name in known if words_of(name) & TRAINING} for names in given):
            continue
        for call, names in zip(calls, given, strict=True):
            if whole in names:
                words = f"{ast.unparse(call)} passes messages along {whole}, with the links that are to be predicted"
                yield "leak", words, call.lineno


def _whole_of(name: str, known: Mapping[str, list[ast.expr]]) -> str:
    """Return what all values of a name are parts of, `edges` of `edges[order[:n]]`."""
    found = {one.value.id for one in known[name] if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name)}
    return next(iter(found)) if len(found) == 1 else ""


def _named_for_another_split(tree: ast.AST) -> Iterator[Found]:
    """What is named after the validation data is computed from them, where there are any, and not from the test's."""
    held = {name_of(one) for one in walked(tree)}
    drawn = {name for one in walked(tree) if isinstance(one, ast.For) for name in names_in(one.target)}
    held = {name for name in held - drawn if words_of(name) & _VALIDATION and words_of(name) & _SETS}
    for node in walked(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        names = {one.id for one in walked(node.targets[0]) if isinstance(one, ast.Name)}
        given = [words_of(name_of(one)) for one in node.value.args]
        is_for_validation = bool(names and held - names) and all(words_of(one) & _VALIDATION for one in names)
        if is_for_validation and any(words & _TESTS and words & _SETS and not words & _VALIDATION for words in given):
            yield (
                "shift",
                f"{ast.unparse(node)} takes the test data for what is named after the validation",
                node.lineno,
            )


def _prepared_in_part(tree: ast.AST) -> Iterator[Found]:
    """Both splits are shifted and scaled: `(train - mean) / std` beside `test - mean` leaves the test at its scale."""
    prepared = {name: (value, line) for name, value, line in assignments(tree) if isinstance(value, ast.BinOp)}
    for name, (value, _) in prepared.items():
        if not words_of(name) & TRAINING or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div):
            continue
        shifted = value.left
        for other, (part, line) in prepared.items():
            is_twin = words_of(other) & _OTHERS and words_of(name) - TRAINING == words_of(other) - _OTHERS
            is_shifted = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and isinstance(shifted, ast.BinOp)
            if not is_twin or not is_shifted or not isinstance(part, ast.BinOp) or not isinstance(shifted, ast.BinOp):
                continue
            is_own = name_of(part.left) == other and name_of(shifted.left) == name
            if is_own and ast.dump(part.right) == ast.dump(shifted.right):
                words = f"{other} = {ast.unparse(part)} is not divided by {ast.unparse(value.right)}, as {name} is"
                yield "shift", words, line


def _fitted_where_it_is_used(tree: ast.AST) -> Iterator[Found]:
    """What an evaluation is given was fitted to the training data: fitted there, it wipes out how the data differ."""
    for function in (one for one in walked(tree) if isinstance(one, Function)):
        asked = {called(one) for one in walked(function) if isinstance(one, ast.Call)}
        is_evaluation = "backward" not in asked and ("eval" in asked or bool(words_of(function.name) & EVALUATION))
        given = set(parameters_of(function)) if is_evaluation else set()
        for call in calls_in(function, "fit_transform", "fit") if given else ():
            owner = _owner(call)
            others = [one for one in calls_in(tree, "fit_transform", "fit") if _owner(one) == owner and one is not call]
            if owner in given and others and words_of(owner) & _SCALERS:
                words = f"{ast.unparse(call)} fits {owner} anew in {function.name}, where nothing is trained"
                yield "shift", words, call.lineno


def _doubled_before_the_split(tree: ast.AST) -> Iterator[Found]:
    """Copies of one sample belong to one split (Kaufman et al. 2012, "Leakage in data mining", section 3).

    Doubled first and split then, most of the test is in the training: both directions of an edge, mirrored pictures.
    """
    for block in blocks_in(tree):
        for at, statement in enumerate(block):
            name = _joined_with_itself(statement)
            cut = _cut_behind(name, block[at + 1 :]) if name else ""
            if cut:
                words = f"{ast.unparse(statement)} doubles what {cut} splits: both parts get copies of the same"
                yield "leak", words, statement.lineno


def _cut_behind(name: str, block: Sequence[ast.stmt]) -> str:
    """Return the call by which a block splits what has this name; empty where it is given another value before."""
    for statement in block:
        for call in calls_in(statement, *_CUTS):
            if any(is_name(one, name) for one in walked(call)):
                return ast.unparse(call)
        if any(one == name for one, _ in names_given([statement])):
            break
    return ""


def _joined_with_itself(statement: ast.stmt) -> str:
    """Return the name that is given its own rows twice, `e = cat([e, e.flip(1)])`; empty of anything else."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.Call) or called(value) not in _JOINS or not value.args:
        return ""
    name = name_of(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    parts = value.args[0].elts if isinstance(value.args[0], ast.List | ast.Tuple) else []
    axis = next((ast.unparse(one.value) for one in value.keywords if one.arg in ("dim", "axis")), "")
    axis = axis or (ast.unparse(value.args[1]) if len(value.args) > 1 else "0")
    is_own = all(names_in(one) - _LIBRARIES == {name} for one in parts)
    return name if axis == "0" and len(parts) > 1 and is_own else ""


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _fitted_anew,
    _numbered_anew,
    _encoded_anew,
    _fitted_by_each_use,
    _folds_share_a_model,
    _chosen_on_the_test,
    _edges_of_the_test,
    _named_for_another_split,
    _prepared_in_part,
    _fitted_where_it_is_used,
    _doubled_before_the_split,
)
