"""One record as the rules see it that judge one of several learners."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from ..running_statistics import Mask, median
from .model_index import first_group, rate_name
from .record_burst import Burst, once
from .step_context import FROM_ZERO, StepContext


@dataclass(slots=True)
class KnownMatrices:
    """Which rows of `update` are matrices of one learner, for a model and so many rows."""

    key: tuple[object, ...] = ()
    rows: Mask | None = None


class LearnerView(StepContext):
    """A record whose `loss` is one learner's, with the rate and the weights of this learner's optimizers.

    Args:
        context: The record as it is.
        learner: Name of the learner.
        loss: Its loss in this record.
        hidden: Scalars that are not shown: the losses of the learners.
        optimizers: Numbers of its optimizers; empty where they are not known.
        known: Kept by the caller from record to record: which rows of `update` are the learner's matrices.
    """

    def __init__(
        self,
        context: StepContext,
        learner: str,
        loss: float,
        *,
        hidden: Collection[str],
        optimizers: frozenset[int],
        known: KnownMatrices,
    ) -> None:
        self.__dict__.update(context.__dict__)
        for name in ("matrices", "typical_update"):
            self.__dict__.pop(name, None)  # of all learners
        record = context.record
        scalars = {key: value for key, value in record.scalars.items() if key not in hidden}
        self.record, self.learner = replace(record, scalars={**scalars, "loss": loss}), learner
        self.burst, self.index = Burst(), -1
        self._optimizers, self._known = optimizers, known

    @property
    def rate(self) -> float | None:
        """The learning rate of the first group of the learner's first optimizer."""
        if not self._optimizers:
            return super().rate
        return self.scalar(rate_name(first_group(self.model, min(self._optimizers))))

    @once
    def matrices(self) -> Mask | None:
        """Return `(rows of update,)`: True for weights of matrix products that the learner's optimizers step."""
        table = self.table("update")
        if table is None:
            return None
        sites = table.rows.sites
        key = (self.model, self._optimizers, len(sites))
        if self._known.key != key:
            is_own = [not self._optimizers or self._is_own(site) for site in sites]
            self._known.key, self._known.rows = key, self.model.matrices(sites) & np.array(is_own, np.bool_)
        return self._known.rows

    def _is_own(self, site: str) -> bool:
        info = self.model.parameters.get(site)
        return info is None or info.group is None or bool(info.more_groups) or info.group[0] in self._optimizers

    @once
    def typical_update(self) -> float:
        """Return what it is for every record, over the learner's matrices."""
        table = self.table("update")
        if table is None or self.matrices is None:
            return float("nan")
        ratios = table.column("ratio_to_weight")
        return median(ratios[self.matrices & table.present & (ratios < FROM_ZERO)])
