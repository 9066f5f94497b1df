"""An explanation with its scores: made of the parts that are tested by themselves, judged, stored and read again."""

import numpy as np
import pytest
from mindscope.insight.saliency import (
    METHODS,
    WITHOUT_GRADIENT,
    explain,
    explanations_in,
    integrated_gradients,
    write_explanations,
)
from mindscope.insight.saliency.attribution_quality import localisation
from mindscope.storage import RunNotFound, open_store

#: A model that looks at the left column of a 2 x 6 x 6 input alone.
W = np.zeros((2, 6, 6))
W[:, :, 0] = 1.0
X = np.random.default_rng(0).uniform(0.5, 1.0, W.shape)
LEFT = np.zeros((6, 6), np.bool_)
LEFT[:, 0] = True


def score(inputs):
    return (inputs * W).sum(axis=(1, 2, 3))


def gradient(inputs):
    return np.broadcast_to(W, inputs.shape)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_where_a_model_looks_and_is_judged_faithful(method):
    found = explain(score, X, method=method, gradient=gradient, region=LEFT)
    assert found.importance.shape == (6, 6)
    assert found.score == score(X[None])[0]
    assert found.localisation.is_hit
    assert found.faithfulness > 0.5
    assert found.deletion.area < found.insertion.area
    assert found.deletion.scores[0] == found.insertion.scores[-1] == pytest.approx(found.score)
    assert found.stability.mean <= found.stability.largest


def test_the_parts_are_those_of_the_functions_themselves():
    found = explain(score, X, method="integrated_gradients", gradient=gradient, region=LEFT)
    expected = integrated_gradients(gradient, X).sum(axis=0)
    assert np.array_equal(found.importance, expected)
    assert found.localisation == localisation(expected, LEFT)
    assert explain(score, X, method="occlusion").localisation is None


def test_a_method_that_needs_the_gradient_or_is_unknown_says_what_to_do():
    with pytest.raises(ValueError, match=f"needs the gradient.*use {', '.join(WITHOUT_GRADIENT)}"):
        explain(score, X, method="gradient")
    with pytest.raises(ValueError, match="did you mean 'occlusion'"):
        explain(score, X, method="oclusion")


def test_what_was_stored_is_read_again_to_single_precision(tmp_path):
    found = [
        explain(score, X, method="gradient", gradient=gradient, sample="0", target="class 3", region=LEFT),
        explain(score, X, method="occlusion", sample="1"),
    ]
    with open_store(str(tmp_path)) as store:
        training = store.begin_run("training")
        training.close()
        kept = write_explanations(store, found, parent="training")
        assert (kept.kind, kept.parent) == ("evaluation", training.run.id)
        first, second = explanations_in(store, kept.id)
        with pytest.raises(RunNotFound):
            write_explanations(store, found, parent="nobody")
        assert explanations_in(store, training.run.id) == ()
    assert (first.sample, first.target, first.method) == ("0", "class 3", "gradient")
    assert np.array_equal(first.x, X.astype(np.float32))
    assert np.array_equal(first.importance, found[0].importance.astype(np.float32))
    assert np.array_equal(first.region, LEFT)
    assert (first.deletion, first.stability, first.localisation) == (
        found[0].deletion,
        found[0].stability,
        found[0].localisation,
    )
    assert (second.region, second.localisation, second.score) == (None, None, found[1].score)


def test_scores_that_are_not_numbers_are_kept_apart(tmp_path):
    flat = explain(lambda inputs: np.zeros(len(inputs)), X, method="occlusion")
    assert np.isnan(flat.faithfulness)
    assert np.isnan(flat.stability.largest)
    with open_store(str(tmp_path)) as store:
        kept = write_explanations(store, [flat])
        (found,) = explanations_in(store, kept.id)
    assert np.isnan(found.faithfulness)
    assert np.isnan(found.stability.largest)
