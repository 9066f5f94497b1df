"""Coverage counted by hand, a corpus that resumes, faults that break and leave no trace."""

import numpy as np
import pytest
from mindscope.armour import FGSM, InvalidInput
from mindscope.armour.fuzz import FAULTS, Mutators, NeuronCoverage, Watched, fuzz, inject, inject_faults
from mindscope.framework import nn

from tests.armour.frameworks import MAKE, inputs, logits, parameters

each_framework = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
X = inputs(30)
Y = logits(X).argmax(axis=1)


class Known(Watched):
    """Neurons that are the inputs themselves."""

    def __init__(self):
        pass

    def neurons(self, x):
        return x.astype(float), {"a": x.astype(float)}


def test_the_five_criteria_by_hand():
    coverage = NeuronCoverage(Known(), np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), sections=4, top=1)
    assert coverage.add(np.array([[0.1, 0.3, 2.0]])) > 0
    found = coverage.report()
    assert found.neuron == pytest.approx(1 / 3)  # only the third is above one half of its scaled row
    assert found.k_sections == pytest.approx(2 / 12)
    assert found.boundary == pytest.approx(1 / 6)
    assert found.strong_activation == pytest.approx(1 / 3)
    assert found.top_k == pytest.approx(1 / 3)
    assert coverage.add(np.array([[0.1, 0.3, 2.0]])) == 0
    coverage.add(np.array([[-1.0, 0.99, 0.5]]))
    assert coverage.report().boundary == pytest.approx(2 / 6)
    assert coverage.report().k_sections == pytest.approx(4 / 12)


@each_framework
def test_watching_gives_the_logits_and_leaves_no_hook(make):
    raw = make()
    found, neurons = Watched(raw).neurons(X)
    np.testing.assert_allclose(found, logits(X), rtol=1e-4, atol=1e-5)
    assert neurons
    if not isinstance(raw, nn.Cell):
        assert not any(m._forward_hooks for m in raw.modules())
    coverage = NeuronCoverage(Watched(raw), X[:10])
    coverage.add(X[10:])
    shares = coverage.report()
    assert 0 < shares.k_sections < 1
    assert shares.strong_activation > 0


@each_framework
def test_fuzzing_covers_more_and_resumes_to_the_same_corpus(make, tmp_path):
    watched = Watched(make())

    def run(rounds, path=None):
        return fuzz(watched, NeuronCoverage(watched, X), X[:5], Y[:5], rounds=rounds, mutants=8, path=path)

    seeds, more = run(0)[1], run(4)
    assert more[1].k_sections > seeds.k_sections
    file = tmp_path / "corpus.npz"
    run(2, file)
    resumed, covered = run(4, file)
    np.testing.assert_array_equal(resumed.inputs, more[0].inputs)
    np.testing.assert_array_equal(resumed.failed, watched.neurons(resumed.inputs)[0].argmax(axis=1) != resumed.labels)
    assert covered == more[1]


@each_framework
def test_attacks_are_mutators_that_find_failures_and_resume(make, tmp_path):
    watched, file = Watched(make()), tmp_path / "corpus.npz"
    correct = np.flatnonzero(watched.neurons(X)[0].argmax(axis=1) == Y)[:5]
    told = []

    def run(rounds, mutators, path=None, watcher=None):
        coverage = NeuronCoverage(watched, X)
        return fuzz(
            watched, coverage, X[correct], Y[correct], rounds=rounds, mutants=16, path=path, mutators=mutators,
            watcher=watcher,
        )  # fmt: skip

    attacks = Mutators(corruptions=(), attacks=(FGSM(),), epsilon=0.3)
    attacked = run(4, attacks, watcher=lambda corpus, coverage: told.append((corpus.rounds, coverage)))
    assert attacked[0].failed.any()
    assert np.abs(attacked[0].inputs[5:] - attacked[0].inputs[:1]).max() <= 1
    assert [rounds for rounds, _ in told] == [1, 2, 3, 4]
    assert told[-1][1] == attacked[1]
    run(2, attacks, file)
    np.testing.assert_array_equal(run(4, attacks, file)[0].inputs, attacked[0].inputs)
    both = run(3, Mutators(corruptions=("brightness",), attacks=(FGSM(),)))
    assert len(both[0].inputs) > 5


def test_mutators_are_checked():
    with pytest.raises(InvalidInput, match="one corruption or attack or more, got none"):
        Mutators(corruptions=())
    with pytest.raises(InvalidInput, match="got rain"):
        Mutators(corruptions=("rain",))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_faults_break_as_many_elements_as_asked(dtype):
    values = np.random.default_rng(0).standard_normal((8, 9)).astype(dtype)
    generator = np.random.default_rng(1)
    flipped = inject(values, "bit_flip", 7, generator)
    bits = f"u{values.itemsize}"
    changed = flipped.view(bits) ^ values.view(bits)
    assert sum(int(word).bit_count() for word in changed.ravel()) == 7
    assert (inject(values, "zero", 5, generator) == 0).sum() == 5
    assert np.isnan(inject(values, "nan", 3, generator)).sum() == 3
    rounded = inject(values, "precision_loss", 1, generator)
    assert 0 < np.abs(rounded / values - 1).max() <= 2.0**-8
    with pytest.raises(InvalidInput, match="fault expects one of"):
        inject(values, "melt", 1, generator)
    with pytest.raises(InvalidInput, match="floating values, got int64"):
        inject(np.arange(3), "zero", 1, generator)


@each_framework
@pytest.mark.parametrize("where", ["weights", "activations"])
def test_the_report_tells_the_drop_and_the_model_is_as_before(make, where):
    raw = make()
    before = [value for value, _ in parameters(raw)]
    found = inject_faults(Watched(raw), X, Y, where=where, count=4, one_by_one=False)
    assert [outcome.fault for outcome in found] == list(FAULTS)
    by = {outcome.fault: outcome for outcome in found}
    # Broken activations are drawn from the whole batch, so that a sample or two may keep theirs.
    assert by["nan"].accuracy <= (0.0 if where == "weights" else 0.1)
    assert by["nan"].drop == 1.0 - by["nan"].accuracy
    assert by["precision_loss"].drop < 0.2
    assert all(outcome.elements > 0 for outcome in found)
    for value, (after, _) in zip(before, parameters(raw), strict=True):
        np.testing.assert_array_equal(value, after)
    single = inject_faults(Watched(raw), X, Y, where=where, faults=["zero"])
    assert all(outcome.site for outcome in single)


def test_bad_input_is_named():
    raw = MAKE["engine"]()
    with pytest.raises(InvalidInput, match="no module at nowhere; there are first"):
        Watched(raw, sites=("nowhere",))
    with pytest.raises(InvalidInput, match="where expects weights or activations"):
        inject_faults(Watched(raw), X, Y, where="optimizer")
    with pytest.raises(InvalidInput, match="expected seeds with one class each"):
        fuzz(Watched(raw), NeuronCoverage(Watched(raw), X), X, Y[:2])
