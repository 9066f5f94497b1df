"""A training with two surfaces of its loss and two explained inputs beside it, all known by construction."""

import numpy as np
from mindscope.insight.landscape import PathPoint, Surface, write_surface
from mindscope.insight.saliency import explain, write_explanations
from mindscope.storage import Run, StepRecord, Store

GRID = tuple(np.linspace(-2.0, 2.0, 5).tolist())
#: A bowl whose lowest point is beside the weights; one corner of the other plane is not finite.
BOWL = tuple(tuple((x - 1.0) ** 2 + y**2 + 0.5 for x in GRID) for y in GRID)
BROKEN = tuple(tuple(float("nan") if x == y == -2.0 else x * y for x in GRID) for y in GRID)
PATH = (PathPoint(0, -2.0, 1.0), PathPoint(50, -1.0, 0.5), PathPoint(100, 0.0, 0.0))
PIXEL = (1, 2)


def surface(kind: str = "path", losses: tuple[tuple[float, ...], ...] = BOWL) -> Surface:
    """A plane of 5 x 5 points."""
    is_path = kind == "path"
    shares = (0.9, 0.08) if is_path else (float("nan"),) * 2
    return Surface(kind, GRID, GRID, losses, losses[2][2], PATH if is_path else (), shares)  # type: ignore[arg-type]


def score(inputs: np.ndarray) -> np.ndarray:
    return inputs[(slice(None), *PIXEL)] * 2.0


def gradient(inputs: np.ndarray) -> np.ndarray:
    found = np.zeros_like(inputs)
    found[(slice(None), *PIXEL)] = 2.0
    return found


def write_explained(store: Store) -> Run:
    """Writes the training, and its evaluations in the order: random surface, path, explanations."""
    writer = store.begin_run("explained")
    writer.write([StepRecord(0, 0.0, scalars={"loss": 1.0})])
    writer.close()
    write_surface(store, surface("random", BROKEN), parent="explained")
    write_surface(store, surface(), parent="explained")
    x = np.random.default_rng(0).uniform(0.5, 1.0, (5, 5))
    region = np.zeros((5, 5), np.bool_)
    region[PIXEL] = True
    found = [
        explain(score, x, method="gradient", gradient=gradient, sample="10", target="class 3", region=region),
        explain(score, x, method="occlusion", sample="10", target="class 3", region=region),
        explain(score, 1 - x, method="gradient", gradient=gradient, sample="9", target="class 1"),
    ]
    write_explanations(store, found, parent="explained")
    return store.find_run("explained")
