"""The verdict on a run, and the default view of a page: the first anomaly, if any."""

from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from ..insight import Diagnosis, Judgement, deviation, stored_diagnosis, stored_verdict
from ..insight.verdict import matters
from ..storage import ROOT_SITE, Finding, InvalidName, Run, metric_name, split_metric
from .address import PageAddress
from .formatting import prose
from .queries.reader import Reader
from .queries.tensor_queries import ELEMENT_COUNTS
from .queries.tensor_sizes import at_equal_size

Tone = Literal["good", "bad", "watch", "quiet"]


@dataclass(frozen=True, slots=True)
class Headline:
    """The state of a run in one line.

    Args:
        verdict: In the words of the command line.
        tone: The colour of the verdict; grey, `quiet`, unless the run is known to be healthy or unhealthy.
        first: The first root cause; None without findings.
        clean_until: The last step before the earliest finding, -1 if it was there from the start.
        judgement: The verdict as the command line has it, with its reasons and questions.
    """

    verdict: str
    tone: Tone
    first: Finding | None
    clean_until: int
    judgement: Judgement = field(default_factory=Judgement)


def headline_of(reader: Reader, run: Run) -> Headline:
    """Return the headline of a recorded run."""
    return headline(_verdict_of(reader, run))


def diagnosis_of(reader: Reader, run: Run) -> Diagnosis:
    """Return all that the command line tells of the run."""
    verdict = _verdict_of(reader, run)
    return reader.cached(run.id, ("diagnosis", run.state), lambda store: stored_diagnosis(store, run, verdict))


def _verdict_of(reader: Reader, run: Run) -> Diagnosis:
    return reader.cached(run.id, ("verdict", run.state), lambda store: stored_verdict(store, run))


def headline(found: Diagnosis) -> Headline:
    """Return the headline of a run from its diagnosis.

    It is clean until its earliest finding, which need not be the root cause: facts are named before what is likely.
    """
    words, judged = found.verdict_words.capitalize(), found.judgement
    if found.root_causes and found.verdict == "unhealthy":
        is_error = any(finding.severity == "error" for finding in found.findings)
        earliest = min(finding.first_step for finding in found.findings if matters(finding))
        return Headline(words, "bad" if is_error else "watch", found.root_causes[0], earliest - 1, judged)
    return Headline(words, "good" if found.verdict_words == "healthy" else "quiet", None, found.last_step, judged)


#: The three default maps, each with its substitutes if it was not recorded.
_MAPS: Final = (
    ("activation/l2_norm", "activation/rms", "activation/std"),
    ("gradient/l2_norm", "activation_grad/l2_norm"),
    ("update/ratio_to_weight", "update/l2_norm", "weight/l2_norm"),
)


def default_maps(metrics: tuple[str, ...], metric: str = "") -> list[str]:
    """Return the default maps for these metrics; a chosen metric comes first if it is not among them."""
    maps = [found for choices in _MAPS if (found := next((name for name in choices if name in metrics), ""))]
    maps = maps or list(metrics[:1])
    return maps if metric in maps or metric not in metrics else [metric, *maps[:2]]


def tensor_of(reader: Reader, run: Run, finding: Finding) -> tuple[str, str | None]:
    """Return metric and site of the tensor that a finding is about.

    A finding about the whole model leads to the tensor that deviates most from its own history at that step; no site if
    none does.
    """
    metrics = reader.metrics(run.id)
    metric = _metric_to_show(finding.metric, metrics)
    if finding.site in reader.sites(run.id, metric):
        return metric, finding.site
    metric = metric or next(iter(default_maps(metrics)), "")
    return metric, _most_deviating(reader, run.id, metric, finding.first_step) if metric else None


def _most_deviating(reader: Reader, run: str, metric: str, step: int) -> str | None:
    """Return the site that deviates most from its own history at a step or right after it, where an update shows."""
    maps = len(default_maps(reader.metrics(run), metric))
    matrix = reader.matrix(run, metric, maps=maps)
    at = int(np.searchsorted(matrix.steps, step, side="right")) - 1
    around = np.s_[:, max(0, at) : at + 2]
    broken = (matrix.non_finite[around] > 0).any(axis=1)
    far = np.nan_to_num(np.abs(deviation(at_equal_size(reader, run, matrix, maps=maps))[around]), nan=0.0).max(
        axis=1, initial=0.0
    )
    worth = np.where(broken, np.inf, far)
    return matrix.sites[int(worth.argmax())] if worth.size and worth.max() > 0 else None


def _metric_to_show(metric: str, metrics: tuple[str, ...]) -> str:
    """Return the metric that shows a finding's tensor best: for counts of NaN its norm, where they are marked."""
    subject, _, statistic = metric.rpartition("/")
    norm = metric_name(subject, "l2_norm")
    if statistic in ELEMENT_COUNTS and norm in metrics:
        return norm
    return metric if metric in metrics else ""


def filled_address(reader: Reader, run: Run, address: PageAddress) -> PageAddress:
    """Return the address with its missing metric, site and step filled in."""
    first = headline_of(reader, run).first
    if first is not None and not address.metric and address.site is None:
        address = address.at(*tensor_of(reader, run, first), first.first_step)
    if not address.metric:
        address = replace(address, metric=next(iter(default_maps(reader.metrics(run.id))), ""))
    return address


def boxed_address(reader: Reader, run: Run, address: PageAddress) -> PageAddress:
    """Return the filled address for a page with maps: a finding of the whole model is about no row of them."""
    first = headline_of(reader, run).first
    filled = filled_address(reader, run, address)
    is_of_model = first is not None and first.site == ROOT_SITE
    return replace(filled, site=None) if is_of_model and address.site is None else filled


def metric_error(name: str) -> str:
    """Return a sentence on why the name is not a metric; empty when it is one."""
    if not name:
        return "There is no metric to draw here."
    if name.startswith("scalar/"):
        return ""
    try:
        split_metric(name)
    except InvalidName as error:
        return prose(str(error))
    return ""
