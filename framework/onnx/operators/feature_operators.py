"""Text and the classical models of the domain ai.onnx.ml: encoders, scalers, linear models, trees."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from ... import ops
from ...tensor import Array, Tensor, wrap
from ..operator_call import Elements, OperatorCall, array_of, operator

#: What an item or a label can be.
Label: TypeAlias = str | int | float

#: The n-grams counted, and the column of each.
Pool: TypeAlias = dict[tuple[Label, ...], int]


@operator("StringConcat")
def concat_words(call: OperatorCall, a: Array, b: Array) -> Array:
    """Return each word followed by its partner."""
    return np.asarray(np.frompyfunc(lambda x, y: str(x) + str(y), 2, 1)(a, b), object)


@operator("StringSplit")
def split_words(call: OperatorCall, x: Array) -> tuple[Array, Tensor]:
    """Return the parts of each word, filled up with empty ones, and how many there are."""
    separator, most = call.get("delimiter") or None, call.get("maxsplit", -1)
    lists = [str(word).split(separator, most) if str(word) or separator is None else [""] for word in x.reshape(-1)]
    lists = [[] if not str(word) else parts for word, parts in zip(x.reshape(-1), lists, strict=True)]
    longest = max((len(parts) for parts in lists), default=0)
    table = np.full((len(lists), longest), "", object)
    for row, parts in enumerate(lists):
        table[row, : len(parts)] = parts
    counts = np.asarray([len(parts) for parts in lists], np.int64)
    return table.reshape(*x.shape, longest), wrap(counts.reshape(x.shape))


@operator("RegexFullMatch")
def matches(call: OperatorCall, x: Array) -> Tensor:
    """Return whether the whole word matches the pattern."""
    pattern = re.compile(call.get("pattern"))
    found = [pattern.fullmatch(str(word)) is not None for word in x.reshape(-1)]
    return wrap(np.asarray(found, np.bool_).reshape(x.shape))


@operator("StringNormalizer")
def normalize_words(call: OperatorCall, x: Array) -> Array:
    """Return the words without the stop words, in the case asked for; one empty word where none is left."""
    case, sensitive = call.get("case_change_action", "NONE"), bool(call.get("is_case_sensitive", 0))
    stop = set(call.get("stopwords", ()))
    stop = stop if sensitive else {word.lower() for word in stop}
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        kept = [word for word in row if (word if sensitive else word.lower()) not in stop]
        rows.append([change(word) for word in kept] or [""])
    longest = max(len(row) for row in rows)
    table = np.asarray([row + [""] * (longest - len(row)) for row in rows], object)
    return table.reshape(*x.shape[:-1], longest)


def _pool(call: OperatorCall) -> Pool:
    """Return the n-grams counted, and the column of each."""
    items = call.get("pool_strings") or call.get("pool_int64s")
    starts = [*call.get("ngram_counts"), len(items)]
    columns = iter(call.get("ngram_indexes"))
    return {
        tuple(items[place : place + n]): next(columns)
        for n, (first, last) in enumerate(pairwise(starts), 1)
        for place in range(first, last, n)
    }


def _counted(row: Sequence[Label], call: OperatorCall, pool: Pool) -> Counter[int]:
    """Return how often each n-gram of the pool stands in a row, its items up to `max_skip_count` places apart."""
    shortest, longest = call.get("min_gram_length"), call.get("max_gram_length")
    found: Counter[int] = Counter()
    for n in range(shortest, longest + 1):
        for gap in range(1, 2 if n == 1 else call.get("max_skip_count") + 2):
            for start in range(len(row) - gap * (n - 1)):
                gram = tuple(row[start : start + gap * (n - 1) + 1 : gap])
                if gram in pool:
                    found[pool[gram]] += 1
    return found


@operator("TfIdfVectorizer")
def count_ngrams(call: OperatorCall, x: Elements) -> Tensor:
    """Return how often each n-gram of the pool appears in each row; weighted, or only whether it does."""
    values = array_of(x)
    pool, mode = _pool(call), call.get("mode")
    width = max(call.get("ngram_indexes")) + 1
    rows = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
    counts = np.zeros((len(rows), width), np.float32)
    for number, row in enumerate(rows):
        for column, count in _counted(row.tolist(), call, pool).items():
            counts[number, column] = count
    weights = np.ones(width, np.float32)
    if call.get("weights") is not None:
        weights[list(call.get("ngram_indexes"))] = call.get("weights")
    table = {"TF": counts, "IDF": (counts > 0) * weights, "TFIDF": counts * weights}[mode]
    return wrap(table.astype(np.float32).reshape(*values.shape[:-1], width))


_DOMAIN = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=_DOMAIN)
def pick_features(call: OperatorCall, x: Elements, places: Elements) -> Elements:
    """Return the elements along the last axis at the places given."""
    found = array_of(x)[..., array_of(places).reshape(-1)]
    found = found.reshape(1, -1) if found.ndim == 1 else found
    return wrap(found) if isinstance(x, Tensor) else found


@operator("Binarizer", domain=_DOMAIN)
def binarize(call: OperatorCall, x: Tensor) -> Tensor:
    """Return 1 where an element is above the threshold, else 0."""
    return ops.cast(ops.greater(x, call.get("threshold", 0.0)), x.dtype)


_KINDS = ("strings", "int64s", "floats", "tensor")


def _given(call: OperatorCall, prefix: str) -> list[Label] | None:
    for kind in _KINDS:
        value = call.get(f"{prefix}_{kind}")
        if value is not None:
            return array_of(value).tolist() if kind == "tensor" else list(value)
    return None


def _default(call: OperatorCall, values: list[Label]) -> Any:
    tensor = call.get("default_tensor")
    if tensor is not None:
        return array_of(tensor).reshape(-1)[0]
    if isinstance(values[0], str):
        return call.get("default_string", "_Unused")
    return call.get("default_int64", -1) if isinstance(values[0], int) else call.get("default_float", -0.0)


@operator("LabelEncoder", domain=_DOMAIN)
def encode_labels(call: OperatorCall, x: Elements) -> Elements:
    """Return for each label the value that the table gives it, or the default; NaN is a label."""
    keys, values = _given(call, "keys"), _given(call, "values")
    if keys is None or values is None:
        raise call.refuse("a table without keys_* and values_*")
    table = {_key(k): v for k, v in zip(keys, values, strict=True)}
    default = _default(call, values)
    labels = array_of(x)
    found = [table.get(_key(label), default) for label in labels.reshape(-1).tolist()]
    if isinstance(values[0], str):
        return np.asarray(found, object).reshape(labels.shape)
    tensor = call.get("values_tensor")
    dtype = tensor.dtype if tensor is not None else np.int64 if isinstance(values[0], int) else np.float32
    return wrap(np.asarray(found, dtype).reshape(labels.shape))


def _key(label: Label) -> Label:
    if isinstance(label, float):
        return "nan" if label != label else float(np.float32(label))
    return label


@operator("Scaler", domain=_DOMAIN)
def scale_features(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `(x - offset) scale`."""
    offset, scale = (Tensor(np.asarray(call.get(name), np.float32)) for name in ("offset", "scale"))
    return (ops.cast(x, "float32") - offset) * scale


@operator("Normalizer", domain=_DOMAIN)
def normalize_rows(call: OperatorCall, x: Tensor) -> Tensor:
    """Return rows over their largest element, the sum of their magnitudes, or their length."""
    x = ops.cast(x, "float32")
    how = call.get("norm", "MAX")
    if how == "MAX":
        size = x.max(-1, keepdims=True)
    else:
        size = abs(x).sum(-1, keepdims=True) if how == "L1" else ops.sqrt((x * x).sum(-1, keepdims=True))
    return x / ops.where(ops.equal(size, 0.0), 1.0, size)


@operator("LinearRegressor", domain=_DOMAIN)
def regress(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x coefficients^T + intercepts`."""
    targets = call.get("targets", 1)
    weight = Tensor(np.asarray(call.get("coefficients"), np.float32).reshape(targets, -1))
    out = ops.matmul(ops.cast(x, "float32"), weight.transpose(1, 0))
    intercepts = call.get("intercepts")
    return out if intercepts is None else out + Tensor(np.asarray(intercepts, np.float32))


#: How a node compares its feature with its split: the modes of TreeEnsemble by number.
_COMPARE = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
_MEMBER = 6


class _Trees:
    """The trees of a TreeEnsemble node, walked by all rows at once."""

    def __init__(self, call: OperatorCall) -> None:
        self.feature = np.asarray(call.get("nodes_featureids"))
        self.split = array_of(call.get("nodes_splits"))
        self.mode = array_of(call.get("nodes_modes")).reshape(-1)
        branches = ("nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")
        self.true, self.false, self.true_leaf, self.false_leaf = (np.asarray(call.get(name)) for name in branches)
        missing = call.get("nodes_missing_value_tracks_true")
        self.missing = np.zeros(len(self.feature), np.int64) if missing is None else np.asarray(missing)
        self.members = _member_sets(self.mode, call.get("membership_values"))

    def holds(self, node: int, values: Array) -> Array:
        """Return for which values the node's comparison holds."""
        mode = int(self.mode[node])
        is_member = mode == _MEMBER
        found = np.isin(values, self.members[node]) if is_member else _COMPARE[mode](values, self.split[node])
        return np.where(np.isnan(values), bool(self.missing[node]), found)

    def leaves(self, root: int, x: Array) -> Array:
        """Return the leaf of one tree that each row of `x` comes to."""
        found = np.zeros(len(x), np.int64)
        pending = [(root, np.arange(len(x)))]
        while pending:
            node, rows = pending.pop()
            if not len(rows):
                continue
            holds = self.holds(node, x[rows, self.feature[node]])
            for below, is_leaf, part in (
                (self.true[node], self.true_leaf[node], rows[holds]),
                (self.false[node], self.false_leaf[node], rows[~holds]),
            ):
                if is_leaf:
                    found[part] = below
                else:
                    pending.append((int(below), part))
        return found


def _member_sets(modes: Array, values: Elements | None) -> dict[int, Array]:
    """Return for each node that tests membership its set: they stand one after the other, NaN between them."""
    if values is None:
        return {}
    numbers = array_of(values).reshape(-1)
    ends = np.flatnonzero(np.isnan(numbers))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else np.zeros(0, np.int64)
    nodes = np.flatnonzero(modes == _MEMBER)
    return {int(node): numbers[a:b] for node, a, b in zip(nodes, starts, ends, strict=True)}


@operator("TreeEnsemble", domain=_DOMAIN)
def tree_ensemble(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the weights of the leaves that each row comes to, summed over the trees (or their mean, smallest,
    largest)."""
    trees, rows = _Trees(call), array_of(x)
    targets, weights = np.asarray(call.get("leaf_targetids")), array_of(call.get("leaf_weights"))
    count, how = call.get("n_targets", 1), call.get("aggregate_function", 1)
    each = np.zeros((len(call.get("tree_roots")), len(rows), count), weights.dtype)
    for tree, root in enumerate(call.get("tree_roots")):
        leaves = trees.leaves(int(root), rows)
        each[tree, np.arange(len(rows)), targets[leaves]] = weights[leaves]
    total = (each.mean, each.sum, each.min, each.max)[how](0)
    if call.get("post_transform", 0):
        raise call.refuse("a transformation of the sums (post_transform)")
    return wrap(total.astype(x.dtype))
