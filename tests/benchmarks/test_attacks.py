"""The networks of the benchmark of attacks are one in both frameworks, and its rows say what they compare."""

import numpy as np
import pytest
from mindscope.framework import Tensor

from benchmarks.attacks import digits

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")


@pytest.mark.parametrize("name", digits.NAMES)
def test_a_stored_network_is_the_same_through_both_frameworks(name: str) -> None:
    x, y = digits.images()
    through_torch = digits.torch_model(name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(digits.engine_model(name)(Tensor(x)).numpy(), through_torch, atol=1e-4)
    assert np.mean(through_torch.argmax(axis=1) == y) > 0.97
    assert (digits.MODELS / f"{name}.npz").stat().st_size < 200_000


def test_every_image_touches_the_box_and_none_is_trained_and_attacked() -> None:
    (x, _), (trained, _) = digits.images(), digits.images(training=True)
    assert (((x == 0) | (x == 1)).reshape(len(x), -1).any(axis=1)).all()
    assert len(x) + len(trained) == 1797
    known = {image.tobytes() for image in trained}
    assert not any(image.tobytes() in known for image in x)


def test_a_race_tells_a_ratio_for_every_way_to_run_it_and_its_own_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("benchmarks")
    from benchmarks.attacks.libraries import contenders, missing
    from benchmarks.attacks.speed import Race, race_rows

    rows = list(race_rows((Race("fgsm", "FGSM", 1.0, ("mlp",), 0.1, 20, 2),)))
    assert [row["metric"] for row in rows if row["unit"] == "torch/torch"] == ["cpu_ratio"]
    assert len([row for row in rows if row["target"]]) == (0 if len(missing()) == 3 else 2)
    x, y = (part[:20] for part in digits.images())
    found = {name: call(x, y) for name, call in contenders("pgd", "mlp", 0.05).items()}
    for name, (adversarials, _) in found.items():
        assert np.abs(adversarials - x).max() <= 0.05 + (0 if name in ("torch", "engine") else 1e-6)
    assert np.array_equal(found["torch"][1], found["engine"][1])
