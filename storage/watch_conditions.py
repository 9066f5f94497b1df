"""Conditions of watchpoints over recorded values, and the grammar of their one line.

gradient/l2_norm @ decoder.* > 10 for 3 steps
scalar/loss >= 4                                   a scalar has no site
weight/max @ *.bias outside [-1, 1]                | inside [A, B]
change of weight/l2_norm @ head.* < 1e-7           relative to the value before
unchanged weight @ encoder.* for 5 steps           every statistic bit for bit what it was
nan @ decoder.*                                    | inf | non-finite, in whatever is recorded there
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from .errors import InvalidName, nearest
from .metric_series import SUBJECTS, split_metric

Test = Literal[">", ">=", "<", "<=", "==", "!=", "outside", "inside", "unchanged", "nan", "inf", "non-finite"]

_CONTENTS: Final = ("nan", "inf", "non-finite")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_STEPS = re.compile(r"\s+for\s+(\d+)\s+steps?\s*$")
_COMPARED = re.compile(
    rf"(?P<change>change\s+of\s+)?(?P<metric>[^\s@<>=!]+)\s*(?:@\s*(?P<sites>[^\s<>=!]+)\s*)?"
    rf"(?:(?P<test>>=|<=|==|!=|>|<)\s*(?P<bound>{_NUMBER})"
    rf"|(?P<range>outside|inside)\s*\[\s*(?P<low>{_NUMBER})\s*,\s*(?P<high>{_NUMBER})\s*\])$"
)
_STILL = re.compile(r"unchanged\s+(?P<subject>\S+)\s*(?:@\s*(?P<sites>\S+))?$")
_CONTENT = re.compile(r"(?:any\s+)?(?P<test>nan|inf|non-finite)\s*(?:@\s*(?P<sites>\S+))?$")


@dataclass(frozen=True, slots=True)
class WatchCondition:
    """One condition.

    Args:
        text: The line of the condition, without superfluous blanks.
        test: A comparison with `low`; `outside` or `inside` of `low` and `high`; or the content of a tensor.
        subject: The recorded subject; empty for any.
        statistic: The compared statistic; empty if none is compared.
        sites: A glob over the sites.
        low: The bound, or the lower of two.
        high: The upper of two bounds.
        is_change: Compare `|new - old| / |old|` between two steps, not the value.
        steps: Consecutive steps in which the condition must hold.
    """

    text: str
    test: Test
    subject: str = ""
    statistic: str = ""
    sites: str = "*"
    low: float = 0.0
    high: float = 0.0
    is_change: bool = False
    steps: int = 1


def parse_condition(text: str) -> WatchCondition:
    """Parse the line of a condition.

    Raises:
        InvalidName: The line is no condition; the message shows the valid forms.
    """
    line = " ".join(text.split())
    steps = _STEPS.search(line)
    body = line[: steps.start()] if steps else line
    count = int(steps[1]) if steps else 1
    if count < 1:
        raise InvalidName(f"condition {line!r} must hold for 1 step or more, got {count}")
    if found := _CONTENT.match(body):
        return WatchCondition(line, _CONTENTS[_CONTENTS.index(found["test"])], sites=found["sites"] or "*", steps=count)
    if found := _STILL.match(body):
        return WatchCondition(
            line, "unchanged", _subject(line, found["subject"]), sites=found["sites"] or "*", steps=count
        )
    if found := _COMPARED.match(body):
        return _compared(line, found, count)
    raise InvalidName(
        f"condition {line!r} is not understood; it must read like 'gradient/l2_norm @ decoder.* > 10 for 3 steps', "
        f"'weight/max @ * outside [-1, 1]', 'change of weight/l2_norm @ * < 1e-7', 'unchanged weight @ *' or 'nan @ *'"
    )


def _compared(line: str, found: re.Match[str], steps: int) -> WatchCondition:
    subject, statistic = split_metric(found["metric"])
    if subject == "scalar" and found["sites"] is not None:
        raise InvalidName(f"condition {line!r} names a site, and scalars have none; leave out '@ {found['sites']}'")
    low, high = (found["low"], found["high"]) if found["range"] else (found["bound"], found["bound"])
    if float(low) > float(high):
        raise InvalidName(f"condition {line!r} has the range [{low}, {high}], which is empty; swap its ends")
    return WatchCondition(
        text=line,
        test=found["range"] or found["test"],  # type: ignore[arg-type]  # the pattern lets nothing else through
        subject=subject,
        statistic=statistic,
        sites=found["sites"] or "*",
        low=float(low),
        high=float(high),
        is_change=found["change"] is not None,
        steps=steps,
    )


def _subject(line: str, name: str) -> str:
    if name.partition("/")[0] not in SUBJECTS or name == "scalar":
        raise InvalidName(
            f"condition {line!r} has no known subject{nearest(name, SUBJECTS)}; subjects are {', '.join(SUBJECTS)}"
        )
    return name
