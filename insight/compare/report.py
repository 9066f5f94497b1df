"""A comparison as a person or a program reads it."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...storage import Json, display_site
from .comparison import Comparison
from .differences import Difference
from .divergence import Divergence
from .origins import GENERATOR

__all__ = ["comparison_to_json", "render_comparison"]

_MOST = 12
#: What seeds a generator, by the name under which its state is recorded.
_SEEDS: Final = {
    "python": "random.seed(0)",
    "numpy": "numpy.random.seed(0)",
    "torch": "torch.manual_seed(0)",
    "cuda": "torch.manual_seed(0)",
    "mindscope": "mindscope.framework.set_seed(0)",
}
#: Values that differ by more are told apart by four digits.
_VISIBLE = 1e-2


def comparison_to_json(found: Comparison) -> dict[str, Json]:
    """The document of `compare --json`; what JSON has no number for is a word."""
    return {
        "runs": list(found.runs),
        "ranks": list(found.ranks),
        "verdict": found.verdict,
        "first_divergence": _divergence(found.first) if found.first else None,
        "also": [_divergence(one) for one in found.also],
        "common_steps": found.common,
        "missing_steps": list(found.missing),
        "exact_until": found.exact_until,
        "is_start_clear": found.is_start_clear,
        "values_compared": found.values,
        "renamed": dict(found.alignment.renamed),
        "only_first": list(found.alignment.only_first),
        "only_second": list(found.alignment.only_second),
        "differences": [
            {"area": one.area, "name": one.name, "first": one.first, "second": one.second, "note": one.note}
            for one in found.differences
        ],
    }


def _divergence(one: Divergence) -> dict[str, Json]:
    return {
        "step": one.step,
        "micro_step": one.micro_step,
        "site": one.site,
        "call": one.call,
        "metric": one.metric,
        "first": _number(one.first),
        "second": _number(one.second),
        "relative_difference": _number(one.difference),
        "noise_floor": _number(one.floor),
    }


def _number(value: float) -> Json:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def render_comparison(found: Comparison) -> str:
    """The comparison for a terminal: where they part, what else does, and in what they differ."""
    lines = [f"{found.runs[0]} rank {found.ranks[0]}  against  {found.runs[1]} rank {found.ranks[1]}", "", _said(found)]
    if found.first is not None:
        word = "noise before" if found.verdict == "diverged" else "rounding explains"
        lines += ["", f"   {_line(found.first, word)}"]
        if found.also:
            lines += ["", "   in the same step, in the order of the step:"]
            lines += [f"   {_line(one, word)}" for one in found.also[:_MOST]]
    if any(found.missing):
        lines += ["", f"steps that only one has: {found.missing[0]} the first, {found.missing[1]} the second"]
    if found.alignment.renamed:
        pairs = [f"{first} = {second}" for first, second in found.alignment.renamed.items()]
        lines += ["", f"sites that have another name: {_some(pairs)}"]
    if found.differences:
        listed = list(_differences(found.differences))
        lines += ["", "they differ in:"]
        lines += [f"   {one}" for one in listed[: 2 * _MOST]]
        if len(listed) > 2 * _MOST:
            lines.append(f"   and {len(listed) - 2 * _MOST} more; --json lists all")
    elif found.verdict != "incomparable":
        lines += ["", "data, configuration, structure and environment are the same, as far as they were recorded"]
    return "\n".join(lines)


def _said(found: Comparison) -> str:
    count = f"{found.common} common steps compared, {found.values:,} values"
    if found.verdict == "identical":
        return f"identical: {count}, equal to the bit"
    if found.verdict == "within_noise":
        return f"within noise: {count}; they differ by rounding from the start, and never by more than it explains"
    if found.verdict == "incomparable" or found.first is None:
        return "incomparable: they have no value of one site, metric and step in common"
    if found.verdict == "different_start":
        return f"different from the first common step on ({found.first.step})"
    if found.verdict == "unclear":
        return (
            f"cannot tell: {count}; from the first common step ({found.first.step}) on they differ by more than "
            f"rounding of their parameters' dtypes explains, and by less than is no rounding for certain; if nothing "
            f"of it was computed in a lower precision, something computes otherwise: dump the tensors of the first "
            f"site below in both, and compare with --tensors"
        )
    before = "within rounding before" if found.is_start_clear else "from the start perhaps not by rounding alone"
    before = f"equal to the bit up to step {found.exact_until}" if found.exact_until >= 0 else before
    return f"they part at step {found.first.step} ({before}; {count}):"


def _line(one: Divergence, noise: str) -> str:
    call = f" call {one.call}" if one.call else ""
    micro = f" micro-step {one.micro_step}" if one.micro_step else ""
    site = display_site(one.site) if not one.metric.startswith("scalar/") else ""
    gap = f"{one.difference:.3g}" if math.isfinite(one.difference) else "one of them is not finite"
    floor = f", {noise} {one.floor:.3g}" if one.floor else ""
    digits = 4 if one.difference > _VISIBLE else 9
    values = f"{one.first:.{digits}g} and {one.second:.{digits}g}"
    return f"{site}{call}{micro} {one.metric}: {values} (relative {gap}{floor})".strip()


def _differences(found: Sequence[Difference]) -> Iterator[str]:
    """A line each; the generators share one, for their checksums say nothing by themselves."""
    generators = [one.name.removeprefix(GENERATOR) for one in found if one.name.startswith(GENERATOR)]
    for one in found:
        if not one.name.startswith(GENERATOR):
            yield _difference(one)
        elif generators:
            yield (
                f"random generators in other states at the start: {', '.join(generators)}; "
                f"seed those that the training draws from{_seeds(generators)}"
            )
            generators = []


def _seeds(generators: Sequence[str]) -> str:
    """The calls that seed these generators."""
    calls = dict.fromkeys(_SEEDS[name.partition(":")[0]] for name in generators if name.partition(":")[0] in _SEEDS)
    return f", as {', '.join(calls)}" if calls else ""


def _difference(one: Difference) -> str:
    if one.area == "module" and one.first is None:
        return f"module {one.name}: only in the second"
    if one.area == "module" and one.second is None:
        return f"module {one.name}: only in the first"
    if one.area in ("start", "data"):
        return f"{one.name}: checksums {_word(one.first)} and {_word(one.second)}{f'; {one.note}' if one.note else ''}"
    return f"{one.area} {one.name}: {_word(one.first)} and {_word(one.second)}"


def _word(value: Any) -> str:  # any JSON value
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _some(words: list[str]) -> str:
    shown = ", ".join(words[:_MOST])
    return shown if len(words) <= _MOST else f"{shown} and {len(words) - _MOST} more"
