"""Weights that start constant, huge or tiny."""

from collections.abc import Iterator
from math import sqrt

from ...storage import Event, Finding, Json, display_site
from ..moment import Moment
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule

_MODEL = chain("one:Dense", "two:Dense", "three:Dense", shape=(64, 64))
#: std x sqrt(fan_in) is the factor by which a layer scales its input: 1 for LeCun and Xavier, 1.41 for He, 0.58 for
#: PyTorch's default, 0.06 for the smallest residual projection of GPT-2 at width 64.
_HUGE, _TINY = 8.0, 0.01
_FEWEST = 16


def _initial(site: str, std: float, mean: float = 0.0) -> Event:
    data: dict[str, Json] = {"std": std, "mean": mean, "fan_in": 64, "shape": [64, 64]}
    return Event("initial_weight", 0, site, data=data)


@rule(
    "bad-initialization",
    needs=("structure",),
    phase=CONFIGURATION,
    fires_on=(
        Recording(structure=_MODEL, events=(_initial("one.weight", 10.0),)),
        Recording(structure=_MODEL, events=(_initial("one.weight", 0.0, 0.5),)),
        Recording(structure=_MODEL, events=(_initial("one.weight", 1e-6),)),
        Recording(structure=_MODEL, events=(_initial("one.weight", 0.0), _initial("two.weight", 0.0))),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_initial("one.weight", 0.176), _initial("two.weight", 0.02))),
        # a last layer or a residual branch that starts at zero on purpose
        Recording(structure=_MODEL, events=(_initial("one.weight", 0.1), _initial("three.weight", 0.0))),
    ),
)
def check(now: Moment, memory: None) -> Iterator[Finding]:
    """A weight matrix of a dense or convolution layer starts constant, or scales its input by over 8 or under 0.01.

    The scale is standard deviation times the root of fan-in (Glorot and Bengio 2010; He et al. 2015,
    arXiv:1502.01852). A constant that is not zero makes all units alike for ever. A zero matrix is usual at the end of
    a residual branch and in adapters, so it takes two of them, and half of all matrices, to be a finding.
    """
    events = [event for event in now.events("initial_weight") if _is_judged(now, event)]
    zeros = [event for event in events if _number(event, "std") == 0 and _number(event, "mean") == 0]
    if len(zeros) >= 2 and 2 * len(zeros) >= len(events):
        yield _report(now, zeros[0], f"all {len(zeros)} of its kind start at zero, so no gradient passes them")
    huge = [event for event in events if _gain(event) > _HUGE]
    tiny = [event for event in events if 0 < _gain(event) < _TINY]
    constant = [event for event in events if _number(event, "std") == 0 and _number(event, "mean") != 0]
    for found, words in (
        (constant, "all its values are the same, so all its units compute and learn the same"),
        (huge, "it scales its input up, and so does the gradient on its way back"),
        (tiny, "almost nothing of its input or of the gradient passes it"),
    ):
        if found:
            yield _report(now, found[0], words, others=len(found) - 1)


def _is_judged(now: Moment, event: Event) -> bool:
    shape = event.data.get("shape")
    sizes = [int(size) for size in shape if isinstance(size, int | float)] if isinstance(shape, list | tuple) else []
    values = 1
    for size in sizes:
        values *= size
    return len(sizes) >= 2 and values >= _FEWEST and now.anatomy.is_linear_map(event.site)


def _number(event: Event, name: str) -> float:
    value = event.data.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")


def _gain(event: Event) -> float:
    return _number(event, "std") * sqrt(max(_number(event, "fan_in"), 1.0))


def _report(now: Moment, event: Event, words: str, others: int = 0) -> Finding:
    more = f" ({others} more matrices are like it)" if others else ""
    return now.finding(
        event.site,
        "weight/std",
        {
            "std": _number(event, "std"),
            "mean": _number(event, "mean"),
            "fan_in": _number(event, "fan_in"),
            "gain": _gain(event),
            "largest_gain": _HUGE,
            "smallest_gain": _TINY,
            "others": others,
        },
        place=max(now.anatomy.order(event.site), 0),
        explanation=f"{display_site(event.site)} starts with mean {_number(event, 'mean'):.3g} and standard deviation "
        f"{_number(event, 'std'):.3g}, a gain of {_gain(event):.3g} for {_number(event, 'fan_in'):.0f} inputs: "
        f"{words}{more}",
        advice="initialise with standard deviation sqrt(2 / fan_in) before ReLU or GELU and sqrt(1 / fan_in) "
        "otherwise, "
        "that is gains of 1.4 and 1; check that no loop overwrote the default and that a checkpoint was really loaded",
        confidence=0.9,
    )
