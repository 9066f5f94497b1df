"""Vocabularies that training and evaluation build each for itself, and pairs that may differ."""

import pytest
from mindscope.probe.checks.twin_vocabularies import names_have_one_number

WORDS = ["<pad>", "red", "green", "blue", "left"]
OTHER = ["<pad>", "left", "blue", "red", "green"]


class _Data:
    def __init__(self, **held):
        vars(self).update(held)


def _ids(words):
    return {word: number for number, word in enumerate(words)}


def _both(mine, other, *, names=("train", "test"), wrap=lambda one: _Data(vocab=one)):
    return dict(zip(names, (wrap(mine), wrap(other)), strict=True))


UNLIKE = {
    "a vocabulary of each": _both(_ids(WORDS), _ids(OTHER)),
    "inside of a tokenizer": _both(_ids(WORDS), _ids(OTHER), wrap=lambda one: _Data(tokenizer=_Data(stoi=one))),
    "the variables themselves": _both(_ids(WORDS), _ids(OTHER), names=("word2idx_train", "word2idx_test")),
    "classes by their folders": _both(_ids(["cat", "dog", "owl"]), _ids(["ant", "cat", "dog", "owl"])),
    "lists of classes": _both(WORDS, OTHER, names=("train_set", "val_set"), wrap=lambda one: _Data(classes=one)),
    "behind a loader": _both(
        _ids(WORDS), _ids(OTHER), names=("train_loader", "valid_loader"), wrap=lambda one: _Data(dataset=_Data(w=one))
    ),
}


@pytest.mark.parametrize("variables", UNLIKE.values(), ids=UNLIKE)
def test_names_with_two_numbers_are_told(variables):
    result = names_have_one_number(variables)
    assert result is not None
    assert result.outcome == "broken"


SHARED = _ids(WORDS)
ALIKE = {
    "one vocabulary": _both(SHARED, SHARED),
    "a longer one": _both(_ids(WORDS), _ids([*WORDS, "right"])),
    "two languages": _both(_ids(WORDS), _ids(OTHER), names=("source", "target")),
    "folds": _both(_ids(WORDS), _ids(OTHER), names=("fold_1", "fold_2")),
    "counts of words": _both({"a": 900, "b": 31, "c": 7}, {"a": 300, "b": 11, "c": 8}),
    "captions": _both(["a cat", "a dog", "a cat"], ["a dog", "a cat", "an owl"], wrap=lambda one: _Data(captions=one)),
    "captions that are all unlike": _both(WORDS, OTHER, wrap=lambda one: _Data(captions=one)),
    "options": _both({"epochs": 3, "batch": 64, "seed": 1}, {"epochs": 1, "batch": 256, "seed": 2}),
    "other classes": {"train": _Data(vocab=_ids(WORDS)), "test": type("Other", (_Data,), {})(vocab=_ids(OTHER))},
}


@pytest.mark.parametrize("variables", ALIKE.values(), ids=ALIKE)
def test_what_may_differ_is_left_alone(variables):
    result = names_have_one_number(variables)
    assert result is None or result.outcome == "held"
