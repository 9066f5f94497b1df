"""Landscapes of losses whose shape is known in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.insight import landscape
from mindscope.insight.errors import InvalidLandscape
from mindscope.insight.landscape import (
    Surface,
    along_path,
    between,
    dumped_weights,
    filter_normalised,
    stored_surfaces,
    through,
    write_surface,
)
from mindscope.storage import Blobs, Event, StepRecord, open_store


def weights(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return {"a.weight": scale * rng.standard_normal((4, 3, 2)), "a.bias": rng.standard_normal(4)}


def quadratic(of):
    return float(sum((value.astype(np.float64) ** 2).sum() for value in of.values()))


def test_every_filter_of_a_direction_has_the_norm_of_the_weights_own():
    own = weights()
    found = filter_normalised(own, np.random.default_rng(1))
    for filter_, direction in zip(own["a.weight"], found["a.weight"], strict=True):
        assert np.linalg.norm(direction) == pytest.approx(np.linalg.norm(filter_))
    assert not found["a.bias"].any()


@given(st.floats(0.01, 100.0))
def test_a_rescaled_network_shows_the_same_landscape(scale):
    """Two layers `a` and `1 / a` times as large compute the same: their surfaces must be equal."""
    first = {"a": np.arange(1.0, 7.0).reshape(2, 3), "b": np.arange(2.0, 6.0).reshape(2, 2)}
    second = {"a": first["a"] * scale, "b": first["b"] / scale}
    x = np.array([0.5, -1.0, 0.25])

    def loss(of):
        return float((of["b"] @ (of["a"] @ x) - 1.0) @ np.ones(2))

    first_surface, second_surface = (
        landscape.surface(loss, through(scaled, seed=3), resolution=3) for scaled in (first, second)
    )
    assert np.array(second_surface.losses) == pytest.approx(np.array(first_surface.losses), rel=1e-9, abs=1e-9)


def test_the_surface_of_a_quadratic_is_its_form_on_the_plane():
    plane = through(weights(), seed=5, extent=2.0)
    found = landscape.surface(quadratic, plane, resolution=5)
    assert (found.x[0], found.x[2], found.x[-1]) == (-2.0, 0.0, 2.0)

    def product(first, second):
        return sum(float((first[name] * second[name]).sum()) for name in first)

    c, d, e = plane.center, plane.first, plane.second
    for y, row in zip(found.y, found.losses, strict=True):
        for x, value in zip(found.x, row, strict=True):
            by_hand = product(c, c) + x * x * product(d, d) + y * y * product(e, e)
            by_hand += 2 * (x * product(c, d) + y * product(c, e) + x * y * product(d, e))
            assert value == pytest.approx(by_hand)
    assert found.center_loss == found.losses[2][2] == pytest.approx(quadratic(weights()))


def walk(steps, seed=0):
    """Weights that move along two orthogonal directions, three times as far along the first."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((28, 2)))
    found = {}
    for step in range(steps):
        flat = 3.0 * np.cos(step / 3) * basis[:, 0] + np.sin(step / 3) * basis[:, 1]
        found[10 * step] = {"a.weight": flat[4:].reshape(4, 3, 2), "a.bias": flat[:4]}
    return found


def test_the_points_of_a_path_in_a_plane_are_the_weights_themselves():
    snapshots = walk(12)
    plane = along_path(snapshots)
    assert sum(plane.explained) == pytest.approx(1.0)
    assert [point.step for point in plane.path] == list(snapshots)
    for point in plane.path:
        for name, value in plane.at(point.x, point.y).items():
            assert value == pytest.approx(snapshots[point.step][name], abs=1e-12)
        assert plane.x[0] < point.x < plane.x[1]
        assert plane.y[0] < point.y < plane.y[1]
    assert (plane.path[-1].x, plane.path[-1].y) == pytest.approx((0.0, 0.0))


def test_the_directions_are_the_first_eigenvectors_of_the_moves():
    rng = np.random.default_rng(2)
    snapshots = {step: {"w": rng.standard_normal((3, 4))} for step in range(6)}
    plane = along_path(snapshots)
    moves = np.stack([(snapshots[step]["w"] - snapshots[5]["w"]).ravel() for step in range(5)])
    values, vectors = np.linalg.eigh(moves.T @ moves)
    assert plane.explained == pytest.approx((values[-1] / values.sum(), values[-2] / values.sum()))
    assert abs(vectors[:, -1] @ plane.first["w"].ravel()) == pytest.approx(1.0)
    assert abs(vectors[:, -2] @ plane.second["w"].ravel()) == pytest.approx(1.0)


def test_a_straight_path_has_one_direction_and_still_a_surface():
    plane = along_path({step: {"w": np.full((2, 2), 1.0 + step)} for step in range(3)})
    assert plane.explained == pytest.approx((1.0, 0.0))
    assert np.isfinite(landscape.surface(quadratic, plane, resolution=3).losses).all()


def test_the_line_between_two_minima_shows_the_barrier():
    left, right = {"w": np.array([[-1.0]])}, {"w": np.array([[1.0]])}
    line = between(lambda of: float((of["w"][0, 0] ** 2 - 1.0) ** 2), left, right, points=5)
    assert line == ((0.0, 0.0), (0.25, 0.5625), (0.5, 1.0), (0.75, 0.5625), (1.0, 0.0))


def test_low_precision_weights_keep_their_dtype():
    plane = through({"w": np.ones((2, 2), np.float16)}, seed=1)
    assert plane.at(0.1, 0.2)["w"].dtype == np.float16


def test_a_loss_that_is_not_finite_is_kept_and_never_the_lowest():
    found = landscape.surface(
        lambda of: float("nan") if of["w"][0, 0] < 1 else 2.0, through({"w": np.ones((1, 1))}), resolution=3
    )
    assert np.isnan(found.losses).any()
    assert found.lowest[2] == 2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: along_path({0: weights(), 1: weights()}), "3 or more steps, got 2"),
        (lambda: along_path({step: weights() for step in range(3)}), "all equal"),
        (lambda: along_path({0: {"w": np.ones(2)}, 1: {"w": np.ones(3)}, 2: {"w": np.ones(3)}}), r"shape \(2,\)"),
        (lambda: through({"w": np.array([[np.nan]])}), "'w' is not finite"),
        (lambda: through({}), "at least one parameter"),
        (lambda: landscape.surface(quadratic, through(weights()), resolution=1), "got 1"),
    ],
)
def test_what_is_no_plane_is_told_in_words(make, words):
    with pytest.raises(InvalidLandscape, match=words):
        make()


def test_a_surface_comes_back_from_the_store_as_it_was(tmp_path):
    found = landscape.surface(quadratic, along_path(walk(5)), resolution=4)
    with open_store(str(tmp_path / "runs")) as store:
        writer = store.begin_run("training")
        writer.close()
        kept = write_surface(store, found, parent="training")
        assert (kept.kind, kept.parent) == ("evaluation", writer.run.id)
        ((run, back),) = stored_surfaces(store, writer.run.id)
        assert isinstance(back, Surface)
        assert (run.id, back) == (kept.id, found)


def test_weights_are_read_from_the_steps_at_which_all_were_dumped(tmp_path):
    blobs, snapshots = Blobs(tmp_path / "tensors"), walk(4)

    def dumped(step, names):
        for name in names:
            blob = blobs.put(snapshots[step][name])
            yield Event("tensor", step, name, data={"subject": "weight", "call": 0, "digest": blob.digest})

    with open_store("memory:") as store:
        writer = store.begin_run("training")
        names = ("a.weight", "a.bias")
        writer.write([StepRecord(s, s, events=tuple(dumped(s, names if s != 10 else names[:1]))) for s in snapshots])
        writer.close()
        run = store.find_run("latest")
        found = dumped_weights(store, run, blobs)
        assert list(found) == [0, 20, 30]
        assert np.array_equal(found[20]["a.weight"], snapshots[20]["a.weight"])
        other = store.begin_run("bare")
        other.close()
        with pytest.raises(InvalidLandscape, match="configure `dump"):
            dumped_weights(store, store.find_run("bare"), blobs)
