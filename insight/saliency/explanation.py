"""One input explained by one method, with the measures that say how far to believe it."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...storage import Event, Json, Run, Store, nearest
from .attribution import (
    Array,
    Floats,
    Gradient,
    Score,
    integrated_gradients,
    occlusion,
    plain_gradient,
    rise,
    scores,
    smooth_gradient,
    space_of,
)
from .attribution_quality import (
    Curve,
    Localisation,
    Stability,
    deletion,
    faithfulness,
    insertion,
    localisation,
    stability,
)

__all__ = ["METHODS", "WITHOUT_GRADIENT", "Explanation", "explain", "explanations_in", "write_explanations"]

#: Inputs near the explained one that `stability` looks at; our choice: each costs a whole explanation.
_NEAR: Final = 5
#: Masks of RISE: a tenth of the paper's, as each explanation is made `1 + _NEAR` times.
_MASKS: Final = 500
#: How far these inputs are away, as a share of the range of the input; our choice: one grey value in a hundred.
_RADIUS: Final = 0.01
#: Windows beside each other on a side, as many as RISE has cells in its paper.
_WINDOWS: Final = 7

_BY_GRADIENT: Final[Mapping[str, Callable[..., Floats]]] = {
    "gradient": lambda gradient, x, **_: plain_gradient(gradient, x),
    "integrated_gradients": lambda gradient, x, baseline, **_: integrated_gradients(gradient, x, baseline=baseline),
    "smooth_gradient": lambda gradient, x, seed, **_: smooth_gradient(gradient, x, seed=seed),
}
_BY_SCORE: Final[Mapping[str, Callable[..., Floats]]] = {
    "occlusion": lambda score, x, baseline, **_: occlusion(score, x, **_window(x), baseline=baseline),
    "rise": lambda score, x, baseline, seed: rise(score, x, masks=_MASKS, baseline=baseline, seed=seed),
}
#: What `explain` knows; those by the gradient come first.
METHODS: Final = (*_BY_GRADIENT, *_BY_SCORE)
WITHOUT_GRADIENT: Final = tuple(_BY_SCORE)


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """One input explained by one method.

    Args:
        sample: Which input it is.
        target: What is explained, as `class 3`.
        x: The input.
        importance: Of every place, the space of the input; channels are summed.
        score: Of the input.
        localisation: How well it points at the region; None without one.
        region: What a person has marked, the space of the input; None where nobody has.
    """

    sample: str
    target: str
    method: str
    x: Floats
    importance: Floats
    score: float
    faithfulness: float
    deletion: Curve
    insertion: Curve
    stability: Stability
    localisation: Localisation | None = None
    region: NDArray[np.bool_] | None = None


def explain(
    score: Score,
    x: Array,
    *,
    method: str,
    gradient: Gradient | None = None,
    sample: str = "",
    target: str = "",
    baseline: ArrayLike = 0.0,
    region: NDArray[np.bool_] | None = None,
    seed: int = 0,
) -> Explanation:
    """Explain one input and judge the explanation.

    Args:
        method: One of `METHODS`.
        gradient: Needed by the first three of them.
        baseline: What stands for an input that says nothing.
        region: Where the thing itself is, the space of `x`.

    Raises:
        ValueError: The method is not known, or needs the gradient and has none.
    """
    at = np.asarray(x, np.float64)
    make = partial(_importance, score, gradient, method, baseline, seed)
    importance = make(at)
    radius = _RADIUS * float(at.max() - at.min())
    return Explanation(
        sample=sample,
        target=target,
        method=method,
        x=at,
        importance=importance,
        score=float(scores(score, at[None])[0]),
        faithfulness=faithfulness(score, at, importance, baseline=baseline, seed=seed),
        deletion=deletion(score, at, importance, baseline=baseline),
        insertion=insertion(score, at, importance, baseline=baseline),
        stability=stability(make, at, radius=radius, samples=_NEAR, seed=seed),
        localisation=None if region is None else localisation(importance, region),
        region=region,
    )


def _window(x: Floats) -> dict[str, int]:
    """Return the size of the covering window and its stride, half of the size."""
    side = max(2, min(space_of(x.shape)) // _WINDOWS)
    return {"window": side, "stride": side // 2}


def _importance(
    score: Score, gradient: Gradient | None, method: str, baseline: ArrayLike, seed: int, x: Floats
) -> Floats:
    if method not in METHODS:
        raise ValueError(f"no method {method!r}{nearest(method, METHODS)}; methods are {', '.join(METHODS)}")
    if method in _BY_SCORE:
        return _BY_SCORE[method](score, x, baseline=baseline, seed=seed)
    if gradient is None:
        raise ValueError(
            f"method {method!r} needs the gradient of the score; give one, or use {', '.join(WITHOUT_GRADIENT)}"
        )
    found = _BY_GRADIENT[method](gradient, x, baseline=baseline, seed=seed)
    summed: Floats = found.reshape(-1, *space_of(x.shape)).sum(axis=0)
    return summed


_KIND: Final = "explanation"


def write_explanations(
    store: Store, found: Sequence[Explanation], *, parent: str | None = None, name: str = "saliency"
) -> Run:
    """Write the explanations into a run of kind `evaluation` and return that run.

    Args:
        parent: The training whose model is explained: its id, name, or `latest`.

    Raises:
        RunNotFound: No run answers to that.
    """
    of = None if parent is None else store.find_run(parent).id
    writer = store.begin_run(name, kind="evaluation", parent=of, tags={"saliency": len(found)})
    writer.write_events([Event(_KIND, 0, data=_document(explanation)) for explanation in found])
    writer.close()
    return writer.run


def explanations_in(store: Store, run: str) -> tuple[Explanation, ...]:
    """Return the explanations that a run itself holds, in order; its evaluations are separate runs."""
    return tuple(_explanation(event.data) for event in store.events(run, kind=_KIND))


def _document(explanation: Explanation) -> dict[str, Json]:
    return {
        "sample": explanation.sample,
        "target": explanation.target,
        "method": explanation.method,
        "x": _packed(explanation.x),
        "importance": _packed(explanation.importance),
        "region": None if explanation.region is None else _packed(explanation.region),
        "score": explanation.score,
        "faithfulness": explanation.faithfulness,
        "deletion": asdict(explanation.deletion),
        "insertion": asdict(explanation.insertion),
        "stability": asdict(explanation.stability),
        "localisation": None if explanation.localisation is None else asdict(explanation.localisation),
    }


def _explanation(data: Mapping[str, Any]) -> Explanation:  # Any: what `_document` has written
    region, pointed = data["region"], data["localisation"]
    return Explanation(
        sample=data["sample"],
        target=data["target"],
        method=data["method"],
        x=_unpacked(data["x"]),
        importance=_unpacked(data["importance"]),
        score=data["score"],
        faithfulness=data["faithfulness"],
        deletion=_curve(data["deletion"]),
        insertion=_curve(data["insertion"]),
        stability=Stability(**data["stability"]),
        localisation=None if pointed is None else Localisation(**pointed),
        region=None if region is None else _unpacked(region) > 0.5,
    )


def _curve(data: Mapping[str, Any]) -> Curve:  # Any: as above
    return Curve(tuple(data["shares"]), tuple(data["scores"]), data["area"])


def _packed(array: Array) -> dict[str, Json]:
    values = np.ascontiguousarray(array, dtype="<f4")
    return {"shape": list(values.shape), "float32": b64encode(values.tobytes()).decode("ascii")}


def _unpacked(data: Mapping[str, Any]) -> Floats:  # Any: as above
    values: Floats = np.frombuffer(b64decode(data["float32"]), "<f4").reshape(data["shape"]).astype(np.float64)
    return values
