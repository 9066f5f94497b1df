"""An epsilon beside which the second moment of Adam is nothing, so that no step is scaled by it."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..context.model_index import group_of
from ..context.optimizer_state import ADAMS, betas_of, by_site
from ..context.step_context import StepContext

_SLOT: Final = "optimizer/exp_avg_sq"
#: Epsilon from which on it is looked at, and times the root of the typical second moment. The default is 1e-8; agents
#: are published with up to 1e-3, and networks for pictures with 0.1 and 1 at a rate to match (our choice).
_LEAST, _TIMES = 1e-3, 10.0
#: Update over weight of the typical matrix, below which the steps are too small for it to be meant (our choice).
_SMALL: Final = 5e-4
#: Looks in a row that are enough, looks in all, and steps between two of them: gradients are largest at first.
LOOKS, MOST_LOOKS, APART = 4, 16, 12


@dataclass(frozen=True, slots=True)
class DrownedMoment:
    """What an optimizer divides by, and what it should divide by.

    Args:
        epsilon: The smallest of its groups.
        root: Of the typical second moment, corrected for its start (Kingma and Ba 2015, arXiv:1412.6980, section 3).
        ratio: Update over weight of the typical matrix.
        matrices: How many were looked at.
    """

    epsilon: float
    root: float
    ratio: float
    matrices: int


def drowned_moment(context: StepContext) -> DrownedMoment | None:
    """Return what is divided by where epsilon drowns an optimizer's second moments, and its steps are small."""
    table = context.table(_SLOT)
    if table is None:
        return None
    means, ratios = table.column("mean"), by_site(context, "update", "ratio_to_weight", table.rows)
    found: dict[int, list[tuple[float, float, float]]] = {}
    for row in context.model.matrices_in_order(table.rows.sites).tolist():
        site = table.rows.sites[row]
        info, group = context.model.parameters.get(site), group_of(context.model, site)
        epsilon = group.options.get("eps") if group is not None and group.kind in ADAMS else None
        if info is None or info.group is None or group is None or not isinstance(epsilon, int | float):
            continue
        if means[row] > 0.0 and np.isfinite(ratios[row]):
            kept = np.nan_to_num(betas_of(group.options)[1])
            root = float(np.sqrt(means[row] / (1.0 - kept ** (context.step + 1))))
            found.setdefault(info.group[0], []).append((float(epsilon), root, float(ratios[row])))
    for matrices in found.values():
        epsilons, roots, updates = np.array(matrices).T
        least, root, ratio = float(epsilons.min()), float(np.median(roots)), float(np.median(updates))
        if least >= max(_LEAST, _TIMES * root, float(roots.max())) and ratio < _SMALL:
            return DrownedMoment(least, root, ratio, len(matrices))
    return None
