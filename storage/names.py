"""The grammar of sites and metrics: how a quantity and the place it was seen at are spelled everywhere."""

from typing import Final, Literal

from .errors import InvalidName

#: What can be looked at. `optimizer` is followed by the slot's own name: `optimizer/exp_avg`; any other may be
#: followed by which of several is meant: `gradient/unreduced`.
SUBJECTS: Final = (
    "batch",
    "input",
    "input_grad",
    "activation",
    "activation_grad",
    "weight",
    "gradient",
    "optimizer",
    "update",
    "communication",
    "attention",
    "router",
    "quantity",
    "scalar",
)

#: The site of the whole model, and of every scalar that belongs to no module.
ROOT_SITE: Final = ""

Severity = Literal["info", "warning", "error"]
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "error")


def metric_name(subject: str, statistic: str) -> str:
    """The metric `subject/statistic`, e.g. `gradient/l2_norm`."""
    return f"{subject}/{statistic}"


def split_metric(metric: str) -> tuple[str, str]:
    """Subject and statistic of a metric; the last slash parts them: `optimizer/exp_avg/l2_norm`.

    Raises:
        InvalidName: There is no slash, one side is empty, or the subject is none of `SUBJECTS`.
    """
    subject, _, statistic = metric.rpartition("/")
    if not subject or not statistic:
        raise InvalidName(f"metric {metric!r} must read 'subject/statistic', for example 'gradient/l2_norm'")
    if subject.partition("/")[0] not in SUBJECTS:
        raise InvalidName(f"metric {metric!r} has no known subject; subjects are {', '.join(SUBJECTS)}")
    return subject, statistic


def display_site(site: str) -> str:
    """The site as a person reads it: the root is `(model)`."""
    return site or "(model)"
