"""`mindscope explain` over a model that looks at one pixel."""

import json

import numpy as np
import pytest
from mindscope.insight.saliency import explanations_in
from mindscope.storage import open_store

MODEL = """
import numpy as np

def logits(inputs):
    return np.stack([inputs[:, 0, 0], inputs[:, 2, 3]], axis=1)

def gradient(inputs, label):
    found = np.zeros_like(inputs)
    found[(slice(None), *((0, 0) if label == 0 else (2, 3)))] = 1.0
    return found

scores = 3
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    region = np.zeros((2, 4, 4), bool)
    region[:, 2, 3] = True
    x = np.random.default_rng(0).uniform(0.5, 1, (2, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.array([1, 0]), region=region)
    with open_store(str(tmp_path / "runs")) as store:
        store.begin_run("training").close()
    return tmp_path


def arguments(folder, *more):
    named = ("--store", folder / "runs", "--logits", f"{folder / 'model.py'}:logits", "--data", folder / "data.npz")
    return ("explain", "training", *named, *more)


def test_it_tells_where_the_model_looks_and_stores_it_beside_the_run(command, model):
    told = command(*arguments(model, "--gradient", f"{model / 'model.py'}:gradient", "--method", "gradient", "--json"))
    assert told.code == 0
    document = json.loads(told.out)
    first, second = document["explanations"]
    assert (first["sample"], first["target"], first["localisation"]["is_hit"]) == ("0", "class 1", True)
    assert (second["target"], second["localisation"]["is_hit"]) == ("class 0", False)
    with open_store(str(model / "runs")) as store:
        kept = store.find_run(document["run"])
        assert (kept.kind, kept.parent) == ("evaluation", document["parent"])
        assert np.argmax(explanations_in(store, kept.id)[0].importance) == 2 * 4 + 3


def test_without_a_gradient_it_asks_for_scores_alone(command, model):
    told = command(*arguments(model, "--samples", 1))
    assert told.code == 0
    assert "occlusion" in told.out
    assert "rise" in told.out
    assert "stored as" in told.err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--method", "gradient"), "needs a gradient"),
        (("--method", "occlussion"), "did you mean 'occlusion'"),
        (("--gradient", "model.py:scores"), "no file"),
    ],
)
def test_wrong_words_are_wrong_use(command, model, more, words):
    told = command(*arguments(model, *more))
    assert (told.code, words in told.err) == (2, True)


def test_what_is_no_function_or_has_no_such_class_is_wrong_use(command, model):
    told = command(*arguments(model, "--gradient", f"{model / 'model.py'}:scores"))
    assert (told.code, "must be a function" in told.err) == (2, True)
    np.savez(model / "data.npz", x=np.ones((1, 4, 4)), y=np.array([7]))
    told = command(*arguments(model))
    assert (told.code, "cannot be explained" in told.err) == (2, True)
