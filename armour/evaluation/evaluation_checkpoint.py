"""The finished part of an evaluation, in a file from which the same evaluation resumes after a kill."""

import json
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np

from ...storage import Json
from ...storage.npz_files import read_npz
from ..array_api import to_numpy
from ..contract.checked_samples import Samples
from ..errors import InvalidInput
from .tally import BudgetSummary

_FIELDS: Final = ("success", "distances", "queries", "gradient_calls", "chosen", "judged")


class Checkpoint:
    """One `.npz` file, rewritten as a whole after each addition; without a path it stores no data.

    Args:
        path: Written with the first addition; an existing file is resumed.
        config: All that the result depends on besides the samples.

    Raises:
        InvalidInput: The file is of an evaluation of other samples, models or options, or no such file at all.
    """

    def __init__(self, path: Path | None, config: Mapping[str, Json], samples: Samples) -> None:
        self._path = path
        self._digest = _digest(config, samples)
        self._arrays: dict[str, np.ndarray] = {}
        self._shown: dict[str, dict[str, Json]] = {}
        if path is not None and path.exists():
            self._load(path)

    def get(self, label: str, budget: float) -> BudgetSummary | None:
        """Return what the attack reached at that budget, None where it is not known."""
        key = _key(label, budget)
        if key not in self._shown:
            return None
        success, distances, queries, gradient_calls, chosen, judged = (
            self._arrays[f"{key}:{name}"] for name in _FIELDS
        )
        return BudgetSummary(success, distances, queries, gradient_calls, chosen, judged, self._shown[key])

    def put(self, label: str, budget: float, summary: BudgetSummary) -> None:
        """Write the summary to the file as a whole: after a kill the file is as it was before."""
        if self._path is None:
            return
        key = _key(label, budget)
        self._arrays |= {f"{key}:{name}": getattr(summary, name) for name in _FIELDS}
        self._shown[key] = summary.shown
        partial = self._path.with_suffix(f".{os.getpid()}.part")
        try:
            with partial.open("wb") as file:
                text = json.dumps({"evaluation": self._digest, "shown": self._shown})
                np.savez(file, about=np.array(text), **self._arrays)  # type: ignore[arg-type]  # names of our own
            partial.replace(self._path)
        finally:
            partial.unlink(missing_ok=True)

    def _load(self, path: Path) -> None:
        try:
            arrays = read_npz(path)
            about = json.loads(str(arrays.pop("about")))
            digest, shown = about["evaluation"], dict(about["shown"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InvalidInput(f"{path} is not a checkpoint of an evaluation; name another file") from None
        if digest != self._digest:
            raise InvalidInput(
                f"{path} belongs to an evaluation of another model, other samples or other options; name another file, "
                "or remove it to start over"
            )
        if missing := [f"{key}:{name}" for key in shown for name in _FIELDS if f"{key}:{name}" not in arrays]:
            raise InvalidInput(f"{path} lacks {missing[0]!r}, it is damaged; remove it to start over")
        self._arrays, self._shown = arrays, shown


def _key(label: str, budget: float) -> str:
    return f"{label}@{budget!r}"


def _digest(config: Mapping[str, Json], samples: Samples) -> str:
    """Return a digest of options and samples; the model is known by its clean predictions."""
    state = blake2b(json.dumps(config, sort_keys=True, default=str).encode(), digest_size=16)
    for values in (to_numpy(samples.x), samples.labels, samples.clean_predictions):
        state.update(f"{values.dtype}{values.shape}".encode())
        state.update(np.ascontiguousarray(values).tobytes())
    return state.hexdigest()
