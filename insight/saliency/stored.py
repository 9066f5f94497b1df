"""Explanations in a store: events of runs of kind `evaluation`, arrays as float32 in base64."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...storage import Event, Json, Run, Store
from .contract import Floats
from .explanation import Explanation
from .faithfulness import Curve
from .localisation import Localisation
from .stability import Stability

__all__ = ["explanations_in", "write_explanations"]

_KIND: Final = "explanation"


def write_explanations(
    store: Store, found: Sequence[Explanation], *, parent: str | None = None, name: str = "saliency"
) -> Run:
    """The run of kind `evaluation` that now holds the explanations.

    Args:
        parent: The training whose model is explained: its id, name, or `latest`.

    Raises:
        RunNotFound: No run answers to that.
    """
    of = None if parent is None else store.find_run(parent).id
    writer = store.begin_run(name, kind="evaluation", parent=of, tags={"saliency": len(found)})
    writer.write_events([Event(_KIND, 0, data=_document(one)) for one in found])
    writer.close()
    return writer.run


def explanations_in(store: Store, run: str) -> tuple[Explanation, ...]:
    """The explanations that a run holds itself, in their order; evaluations of it are runs of their own."""
    return tuple(_explanation(event.data) for event in store.events(run, kind=_KIND))


def _document(one: Explanation) -> dict[str, Json]:
    return {
        "sample": one.sample,
        "target": one.target,
        "method": one.method,
        "x": _packed(one.x),
        "importance": _packed(one.importance),
        "region": None if one.region is None else _packed(one.region),
        "score": one.score,
        "faithfulness": one.faithfulness,
        "deletion": asdict(one.deletion),
        "insertion": asdict(one.insertion),
        "stability": asdict(one.stability),
        "localisation": None if one.localisation is None else asdict(one.localisation),
    }


def _explanation(data: Mapping[str, Any]) -> Explanation:  # Any: what `_document` has written
    region, pointed = data["region"], data["localisation"]
    return Explanation(
        data["sample"],
        data["target"],
        data["method"],
        _unpacked(data["x"]),
        _unpacked(data["importance"]),
        data["score"],
        data["faithfulness"],
        _curve(data["deletion"]),
        _curve(data["insertion"]),
        Stability(**data["stability"]),
        None if pointed is None else Localisation(**pointed),
        None if region is None else _unpacked(region) > 0.5,
    )


def _curve(data: Mapping[str, Any]) -> Curve:  # Any: as above
    return Curve(tuple(data["shares"]), tuple(data["scores"]), data["area"])


def _packed(array: NDArray[Any]) -> dict[str, Json]:  # Any: floats or marks
    values = np.ascontiguousarray(array, dtype="<f4")
    return {"shape": list(values.shape), "float32": b64encode(values.tobytes()).decode("ascii")}


def _unpacked(data: Mapping[str, Any]) -> Floats:  # Any: as above
    values: Floats = np.frombuffer(b64decode(data["float32"]), "<f4").reshape(data["shape"]).astype(np.float64)
    return values
