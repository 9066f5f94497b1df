"""Words: joined, split, compared, normalized, counted."""

import re
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np

from ...tensor import Array, Tensor, wrap
from ..call import Call, array_of
from ..registry import operator


@operator("StringConcat")
def concat_words(call: Call, a: Array, b: Array) -> Array:
    """Each word followed by its partner."""
    return np.asarray(np.frompyfunc(lambda x, y: str(x) + str(y), 2, 1)(a, b), object)


@operator("StringSplit")
def split_words(call: Call, x: Array) -> tuple[Array, Tensor]:
    """The parts of each word, filled up with empty ones, and how many there are."""
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
def matches(call: Call, x: Array) -> Tensor:
    """Whether the whole word matches the pattern."""
    pattern = re.compile(call.get("pattern"))
    found = [pattern.fullmatch(str(word)) is not None for word in x.reshape(-1)]
    return wrap(np.asarray(found, np.bool_).reshape(x.shape))


@operator("StringNormalizer")
def normalize_words(call: Call, x: Array) -> Array:
    """The words without the stop words, in the case asked for; one empty word where none is left."""
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


def _pool(call: Call) -> dict[tuple[Any, ...], int]:
    """The n-grams counted, and the column of each."""
    items = call.get("pool_strings") or call.get("pool_int64s")
    starts = [*call.get("ngram_counts"), len(items)]
    columns = iter(call.get("ngram_indexes"))
    return {
        tuple(items[place : place + n]): next(columns)
        for n, (first, last) in enumerate(pairwise(starts), 1)
        for place in range(first, last, n)
    }


def _counted(row: list[Any], call: Call, pool: dict[tuple[Any, ...], int]) -> Counter[int]:
    """How often each n-gram of the pool stands in a row, its items up to `max_skip_count` places apart."""
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
def count_ngrams(call: Call, x: Any) -> Tensor:
    """How often each n-gram of the pool appears in each row; weighted, or only whether it does."""
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
