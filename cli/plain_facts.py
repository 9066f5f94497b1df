"""Writes the facts of a rehearsal in plain words: what failed, what could not be checked, what held, what was seen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["fact_lines"]

_Fact = Mapping[str, Any]
#: Events that hold checksums or program texts, to compare runs with; those of checks; and what the diagnosis tells.
_NOT_TOLD: Final = frozenset(
    {"initial_checksum", "initial_weight", "program_text", "random_state", "resume_point", "check", "causality"}
    | {"exchange", "training_kind"}
)
_TITLES: Final = {"broken": "failed", "open": "could not be checked", "held": "held"}
#: Most entries of a list that are shown. Our choice.
_SHOWN: Final = 4


def fact_lines(facts: Sequence[_Fact]) -> Iterator[str]:
    """Yield the lines of all facts, each group under its title.

    Args:
        facts: Events with `kind`, `step`, `site` and their data.
    """
    results: dict[tuple[str, str], list[_Fact]] = {}
    for fact in facts:
        if fact["kind"] == "check":
            results.setdefault((fact["check"], fact["claim"]), []).append(fact)
        elif fact["kind"] == "causality":
            results["causality", ""] = [_of_causality(fact)]
    groups: dict[str, list[str]] = {title: [] for title in _TITLES}
    for several in results.values():
        outcome = next(one for one in ("broken", "held", "open") if any(fact["outcome"] == one for fact in several))
        told = next(fact for fact in several if fact["outcome"] == outcome)
        reason = f": {told['counterexample']}" if told["counterexample"] else ""
        where = f" (step {told['step']})" if outcome == "broken" else ""
        groups[outcome].append(f"{told['claim']}{reason}{where}")
    for outcome, title in _TITLES.items():
        yield from _group(title, groups[outcome])
    yield from _group("also seen", [*filter(None, _others(facts))])


def _group(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"\n{title}:"
        yield from (f"  {line}" for line in dict.fromkeys(lines))


def _of_causality(fact: _Fact) -> dict[str, Any]:
    """Return the fact as the result of a check; only a model that is declared to be causal can fail it."""
    claim, is_causal = "no output of the model depends on later positions of its input", fact["is_causal"]
    if is_causal:
        return {**fact, "claim": claim, "outcome": "held", "counterexample": ""}
    if is_causal is None:
        reason = fact.get("reason", "no output depends on any position but its own")
        if reason.startswith("a sample must hold"):
            reason = "its input has no axis of positions"
        return {**fact, "claim": claim, "outcome": "open", "counterexample": reason}
    found = f"a change of position {fact['changed']} changes the output of position {fact['first_output']}"
    if fact["is_declared"]:
        return {**fact, "claim": claim, "outcome": "broken", "counterexample": found}
    words = f"{found}; right for a model that reads whole sequences, and an error in one that predicts the next token"
    return {**fact, "claim": claim, "outcome": "open", "counterexample": words}


def _others(facts: Sequence[_Fact]) -> Iterator[str]:
    """Yield a sentence for each other fact; those that come back at many steps share one."""
    alike: dict[tuple[str, str], list[_Fact]] = {}
    for fact in facts:
        if fact["kind"] in _NOT_TOLD:
            continue
        if fact["kind"] in _WORDS:
            yield _WORDS[fact["kind"]](fact)
        else:
            alike.setdefault((fact["kind"], fact["site"]), []).append(fact)
    for (kind, _), several in alike.items():
        if kind in _WORDS_OF_SEVERAL:
            yield _WORDS_OF_SEVERAL[kind](several)
        else:
            more = len(several) - 1
            yield _seen(several[0]) + f"; and at {more} more, the last step {several[-1]['step']}" * (more > 0)


def _seen(fact: _Fact) -> str:
    """Return a fact that has no words of its own in a sentence."""
    values = (
        f"{name.replace('_', ' ')} {_short(value)}"
        for name, value in fact.items()
        if name not in ("kind", "step", "site") and value not in (None, "", [], {})
    )
    site = f" of {fact['site']}" if fact["site"] else ""
    return f"step {fact['step']}: {fact['kind'].replace('_', ' ')}{site}: {', '.join(values)}"


def _loss_input(fact: _Fact) -> str:
    lowest, highest, loss = fact.get("min"), fact.get("max"), str(fact["loss"])
    limits = "" if lowest is None or highest is None else f" from {lowest:.4g} to {highest:.4g}"
    domain = str(fact.get("domain") or "values")
    words = "values" if domain == "logits" and loss not in _OF_LOGITS else _DOMAINS.get(domain, domain)
    return f"{loss} is given {words}{limits}"


def _accumulation(fact: _Fact) -> str:
    count, factor = fact["micro_batches"], fact["factor"]
    if count == 1:
        return ""
    scaled = "" if factor is None else f", each from {factor:.4g} times its loss"
    return f"from step {fact['step']} on, {count} backward passes are summed in a step{scaled}"


def _modes(fact: _Fact) -> str:
    words = [
        f"{one['count']} in {'training' if one['training'] else 'evaluation'} mode "
        f"with{'' if one['gradients'] else 'out'} gradients"
        for one in fact["forwards"]
    ]
    return f"forward passes in step {fact['step']}: {', '.join(words)}" if words else ""


def _counts(fact: _Fact) -> str:
    steps = fact["count"]
    return f"{fact['optimizer_kind']} goes on after {steps} steps" if steps else ""


def _shared(fact: _Fact) -> str:
    return f"these parameters share one tensor: {_short(fact['sites'])}"


def _written(facts: Sequence[_Fact]) -> str:
    sites = dict.fromkeys(weight["site"] for fact in facts for weight in fact["weights"])
    return f"something other than an optimizer's step changed weights before {_when(facts)}: {_short([*sites])}"


def _left_over(facts: Sequence[_Fact]) -> str:
    norms = [fact["l2_norm"] for fact in facts]
    size = f"{norms[0]:.4g}" if len(norms) == 1 else f"{min(norms):.4g} to {max(norms):.4g}"
    return (
        f"gradients of earlier passes were still there as the forward began, at {_when(facts)}, with a norm of {size}"
    )


def _when(facts: Sequence[_Fact]) -> str:
    """Return at which steps these facts were seen."""
    steps = sorted({fact["step"] for fact in facts})
    if len(steps) == 1:
        return f"step {steps[0]}"
    return f"{len(steps)} steps, the first {steps[0]} and the last {steps[-1]}"


#: Losses whose input is called logits; and what the other kinds of input are called.
_OF_LOGITS: Final = frozenset({"cross_entropy", "binary_cross_entropy_with_logits"})
_DOMAINS: Final[dict[str, str]] = {
    "unit_interval": "values between 0 and 1",
    "log_probabilities": "log-probabilities",
    "constant": "one and the same value",
    "non_finite": "values that are not finite",
    "empty": "no values",
}
_WORDS: Final[dict[str, Callable[[_Fact], str]]] = {
    "loss_input": _loss_input,
    "accumulation": _accumulation,
    "forward_modes": _modes,
    "optimizer_step_count": _counts,
    "shared_parameter": _shared,
}
#: Of facts that come at many steps, all in one sentence.
_WORDS_OF_SEVERAL: Final[dict[str, Callable[[Sequence[_Fact]], str]]] = {
    "gradient_before_forward": _left_over,
    "weights_written": _written,
}


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {_short(inner)}" for name, inner in [*value.items()][:_SHOWN]) + ")"
    if isinstance(value, list):
        rest = f" and {len(value) - _SHOWN} more" if len(value) > _SHOWN else ""
        return ", ".join(map(_short, value[:_SHOWN])) + rest
    return f"{value:.4g}" if isinstance(value, float) else str(value)
