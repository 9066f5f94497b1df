"""What a page about a run looks at when its address leaves it open: the first anomaly if there is one."""

from dataclasses import replace
from typing import Final

import numpy as np

from ..insight import deviation
from ..storage import Finding, InvalidName, Run, metric_name, split_metric
from .address import Address
from .data import ELEMENT_COUNTS, Reader
from .headline import headline_of
from .words import prose

#: The three maps that tell most stories side by side, each with what stands in for it where it was not recorded.
_MAPS: Final = (
    ("activation/l2_norm", "activation/rms", "activation/std"),
    ("gradient/l2_norm", "activation_grad/l2_norm"),
    ("update/ratio_to_weight", "update/l2_norm", "weight/l2_norm"),
)


def usual_maps(metrics: tuple[str, ...], metric: str = "") -> list[str]:
    """The maps of a run that recorded these metrics; the one that is looked at comes first if it is none of them."""
    maps = [found for choices in _MAPS if (found := next((one for one in choices if one in metrics), ""))]
    maps = maps or list(metrics[:1])
    return maps if metric in maps or metric not in metrics else [metric, *maps[:2]]


def tensor_of(reader: Reader, run: Run, finding: Finding) -> tuple[str, str | None]:
    """Metric and site of the tensor that a finding speaks of.

    One that speaks of the whole model leads to the tensor that departed most from its own history at that step; no site
    when none did.
    """
    metrics = reader.metrics(run.id)
    metric = _telling(finding.metric, metrics)
    if finding.site in reader.sites(run.id, metric):
        return metric, finding.site
    metric = metric or next(iter(usual_maps(metrics)), "")
    return metric, _most_unusual(reader, run.id, metric, finding.first_step) if metric else None


def _most_unusual(reader: Reader, run: str, metric: str, step: int) -> str | None:
    """The site that is farthest from its own history at a step or right after it, where an update shows."""
    matrix = reader.matrix(run, metric, maps=len(usual_maps(reader.metrics(run), metric)))
    at = int(np.searchsorted(matrix.steps, step, side="right")) - 1
    around = np.s_[:, max(0, at) : at + 2]
    broken = (matrix.non_finite[around] > 0).any(axis=1)
    far = np.nan_to_num(np.abs(deviation(matrix)[around]), nan=0.0).max(axis=1, initial=0.0)
    worth = np.where(broken, np.inf, far)
    return matrix.sites[int(worth.argmax())] if worth.size and worth.max() > 0 else None


def _telling(metric: str, metrics: tuple[str, ...]) -> str:
    """The metric that shows the tensor of a finding best: for counts of NaN its norm, on which they are marked."""
    subject, _, statistic = metric.rpartition("/")
    norm = metric_name(subject, "l2_norm")
    if statistic in ELEMENT_COUNTS and norm in metrics:
        return norm
    return metric if metric in metrics else ""


def place_of(reader: Reader, run: Run, address: Address) -> Address:
    """The address with metric, site and step filled in where it leaves them open."""
    first = headline_of(reader, run).first
    if first is not None and not address.metric and address.site is None:
        address = address.at(*tensor_of(reader, run, first), first.first_step)
    if not address.metric:
        address = replace(address, metric=next(iter(usual_maps(reader.metrics(run.id))), ""))
    return address


def no_metric(name: str) -> str:
    """Why the name that an address or a control says is of no metric, as a sentence; empty when it is of one."""
    if not name:
        return "There is no metric to draw here."
    if name.startswith("scalar/"):
        return ""
    try:
        split_metric(name)
    except InvalidName as error:
        return prose(str(error))
    return ""
