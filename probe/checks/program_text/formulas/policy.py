"""Formulas of reinforcement learning: ratios, surrogates, twin critics and returns."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from ..bindings import Function, called
from ..expressions import (
    DIGITS,
    assignments,
    calls_in,
    factors,
    find,
    inner,
    is_difference,
    name_of,
    operand,
    rest_of_one,
    terms,
    words_in,
)
from ..known_values import words_through
from ..names import words_of
from ..operations import squared
from ..trees import walked
from .pattern import Found, Pattern

_OLD: Final = frozenset({"old", "behavior", "behaviour", "prev"})
_LOG: Final = frozenset({"log", "logp", "logprob", "logprobs", "logps", "lp", "logpi", "prob", "probs"})
_DISCOUNTS: Final = frozenset({"gamma", "discount", "lam"})
_TEMPERATURES: Final = frozenset({"alpha", "temperature", "temp"})
#: Words, and names, of what a policy is to get more of; words of what it is to get less of.
_GAINS: Final = frozenset({"advantage", "advantages", "adv", "advs", "gae", "return", "returns", "reward", "rewards"})
_RETURNS: Final = frozenset({"R", "G", "Gt", "G_t"})
_COSTS: Final = frozenset({"cost", "costs", "regret", "neg", "negative", "value", "values", "baseline", "critic"})
#: Words of networks that an optimizer steps, and of deviations and their logarithms.
_TRAINED: Final = frozenset({"online", "policy", "q", "qnet", "local", "main", "student", "actor", "critic"})
_DEVIATIONS: Final = frozenset({"std", "sigma", "scale", "stddev", "var"})
_RISING: Final = frozenset({"exp", "softplus", "elu", "sqrt"})
_LOG_DEVIATIONS: Final = frozenset({"logstd", "logsigma", "logscale", "logvar"})
_LIKELIHOODS: Final = frozenset({"logp", "logprob", "logprobs", "logpi", "lp", "prob", "probs"})
_POLICIES: Final = frozenset({"pg", "policy", "actor", "pi"})
_REFERENCES: Final = frozenset({"ref", "reference"})
_RUNNING: Final = frozenset({"trace", "traces", "eligibility", "rms", "normalizer"})
_VALUES: Final = frozenset({"v", "vf", "value", "values", "critic"})
_DIVERGENCES: Final = ("kl", "kls", "kld", "kl_div")
_SURROGATES: Final = frozenset({"surr", "surr1", "ratio", "unclipped"})
_JUDGED: Final = frozenset(
    {"critic", "critic1", "critic2", "q", "q1", "q2", "qf", "qf1", "qf2", "qvalue", "qvalues", "qs"}
)
_ACTORS: Final = frozenset({"actor", "policy", "pi"})


def _ratio(tree: ast.AST) -> Iterator[Found]:
    """A policy's ratio is the new probability over the old one (Schulman et al. 2017, arXiv:1707.06347, section 2)."""
    for name, value, line in assignments(tree):
        inside = [operand(call) for call in calls_in(value, "exp")]
        differences = [one for one in [inner(value), *(inner(one) for one in inside if one)] if is_difference(one)]
        is_ratio = "ratio" in words_of(name) or "ratios" in words_of(name)
        for one in differences:
            if not isinstance(one, ast.BinOp) or not is_ratio:
                continue
            left, right = words_in(one.left), words_in(one.right)
            if left & _OLD and not right & _OLD and left & _LOG and right & _LOG:
                yield "sign", f"{name} is made of {ast.unparse(one)}: the old probability over the new one", line


def _surrogate(tree: ast.AST) -> Iterator[Found]:
    """The smaller surrogate is raised (Schulman et al. 2017, arXiv:1707.06347, equation 7)."""
    known = {name: value for name, value, _ in assignments(tree)}
    for name, value, line in assignments(tree):
        for term, sign in terms(value):
            is_larger = isinstance(term, ast.Call) and next(calls_in(term, "max", "maximum"), None) is term
            if sign < 0 and is_larger and words_through(term, known) & _SURROGATES:
                yield "formula", f"{name} raises the larger surrogate: {ast.unparse(term)}", line


def _descent(tree: ast.AST) -> Iterator[Found]:
    """The loss of a policy is minus log-probability times return (Williams 1992, "Simple statistical
    gradient-following algorithms", equation 4; Sutton et al. 2000, "Policy gradient methods", theorem 1)."""
    if any(_is_negated_likelihood(node) for node in walked(tree)):
        return
    known = {name: value for name, value, _ in assignments(tree)}
    for name, value, line in (*assignments(tree), *_appended(tree)):
        if "loss" not in words_of(name) or _is_used_negated(tree, name):
            continue
        for term, sign in terms(value):
            parts, inside = factors(term)
            chosen = [part for part in parts if _is_likelihood(part)]
            gains = [part for part in parts if part not in chosen and _is_gain(part, known)]
            if sign * inside > 0 and len(chosen) == 1 and len(gains) == 1 and len(parts) == 2:
                words = f"{name} lowers the log-probability of what brought more: {ast.unparse(term)} without a minus"
                yield "sign", words, line


def _is_likelihood(node: ast.expr) -> bool:
    """Return whether an expression is a log-probability by its name, and no ratio or difference of two."""
    words = words_in(node)
    is_log = bool(words & {"logp", "logprob", "logprobs", "logps", "logpi"}) or ("log" in words and bool(words & _LOG))
    return is_log and not is_difference(inner(node)) and not words & (_OLD | _GAINS | {"exp", "entropy", "nll", "loss"})


def _is_gain(node: ast.expr, known: Mapping[str, ast.expr]) -> bool:
    """Return whether an expression is a return or an advantage by its name; neither a value minus a return."""
    node = inner(node)
    is_named = isinstance(node, ast.Name) and node.id in _RETURNS
    words, made = words_in(node), known.get(node.id) if isinstance(node, ast.Name) else None
    left = made.left if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Sub) else node
    if is_difference(node) and isinstance(node, ast.BinOp):
        left = node.left
    is_minus = any(isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub) for one in walked(made or node))
    return (is_named or bool(words & _GAINS)) and not is_minus and not words_in(left) & _COSTS


def _is_negated_likelihood(node: ast.AST) -> bool:
    """Return whether a minus stands before a log-probability alone: a name may hold what is negated already."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return not isinstance(inner(node.operand), ast.BinOp) and _is_likelihood(node.operand)
    is_rest = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Constant)
    return is_rest and isinstance(node, ast.BinOp) and _is_likelihood(node.right)


def _is_used_negated(tree: ast.AST, name: str) -> bool:
    """Return whether a value of this name has a minus before it anywhere, or an optimizer goes up."""

    def has_minus(node: ast.AST) -> bool:
        minus = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            minus = node.right
        is_turned = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub)
        minus = node.value if is_turned and isinstance(node, ast.AugAssign) else minus
        return minus is not None and find(minus, lambda one: name_of(one) == name)

    return find(tree, lambda node: has_minus(node) or (isinstance(node, ast.keyword) and node.arg == "maximize"))


def _appended(tree: ast.AST) -> Iterator[tuple[str, ast.expr, int]]:
    """Yield name, value and line of what is appended to lists."""
    for call in calls_in(tree, "append"):
        kept = call.func.value if isinstance(call.func, ast.Attribute) else None
        if len(call.args) == 1 and name_of(kept):
            yield name_of(kept), call.args[0], call.lineno


def _twin_maximum(tree: ast.AST) -> Iterator[Found]:
    """The target of twin critics is the smaller value (Fujimoto et al. 2018, arXiv:1802.09477, equation 10)."""
    for name, value, line in assignments(tree):
        for call in calls_in(value, "max", "maximum"):
            first, second = operand(call), operand(call, 1)
            if isinstance(first, ast.Name) and isinstance(second, ast.Name):
                one, two = first.id, second.id
                is_twin = one != two and one.translate(DIGITS) == two.translate(DIGITS) and one.startswith("q")
                if is_twin:
                    yield "formula", f"{name} takes the larger of two critics: {ast.unparse(call)}", line


def _forward_discount(tree: ast.AST) -> Iterator[Found]:
    """Returns and advantages are summed from the end (Schulman et al. 2016, arXiv:1506.02438, equation 16)."""
    for loop in walked(tree):
        if not isinstance(loop, ast.For) or _is_backwards(loop):
            continue
        kept = {one.id for call in calls_in(loop, "append") for one in walked(call) if isinstance(one, ast.Name)}
        for node in loop.body:
            name = node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
            stored = {one.id for other in loop.body for one in _stored(other)}
            if not isinstance(node, ast.Assign) or name not in kept | stored or words_of(name) & _RUNNING:
                continue
            if _is_discounted(node.value, name):
                words = f"{name} = {ast.unparse(node.value)} runs forward in time: it discounts the past"
                yield "formula", words, node.lineno


def _is_backwards(loop: ast.For) -> bool:
    words = ast.unparse(loop.iter)
    return "reversed" in words or "-1" in words or "flip" in words or "[::" in words


def _stored(node: ast.stmt) -> Iterator[ast.Name]:
    """Yield the names that a statement stores into an element of something."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield from (one for one in walked(node.value) if isinstance(one, ast.Name))


def _past_rewards(tree: ast.AST) -> Iterator[Found]:
    """Returns to go are sums of the rewards that are still to come (Chen et al. 2021, arXiv:2106.01345, section 3)."""
    named = [(one.name, one, one.lineno) for one in walked(tree) if isinstance(one, Function)]
    for name, node, line in (*named, *assignments(tree)):
        if not words_of(name) & {"rtg", "togo"} and not {"to", "go"} <= words_of(name):
            continue
        sums = list(calls_in(node, "cumsum"))
        is_turned = next(calls_in(node, "flip", "flipud", "reversed", "fliplr"), None) is not None
        if sums and not is_turned and "::-1" not in ast.unparse(node) and " - " not in ast.unparse(node):
            yield "formula", f"{name} adds up the rewards of the past: {ast.unparse(sums[0])}", line
            return


def _temperature(tree: ast.AST) -> Iterator[Found]:
    """The temperature rises where the entropy is below its target (Haarnoja et al. 2018, arXiv:1812.05905, eq. 18)."""
    for name, value, line in assignments(tree):
        parts, sign = factors(value)
        if "loss" not in words_of(name) or not any(words_in(one) & _TEMPERATURES for one in parts):
            continue
        for gap in parts:
            signs = {kind: sign * its for term, its in terms(gap) if (kind := _entropy_kind(words_in(term)))}
            likelihood, entropy, target = (signs.get(kind, 0) for kind in ("likelihood", "entropy", "target"))
            if target > 0 and (likelihood > 0 or entropy < 0):
                words = f"{name} = {ast.unparse(value)} lowers the temperature where the entropy is too low"
                yield "sign", words, line


def _back_into_the_trained(tree: ast.AST) -> Iterator[Found]:
    """The target network takes the weights of the trained one (Mnih et al. 2015, algorithm 1), and gives it none."""
    for call in calls_in(tree, "load_state_dict"):
        given = call.args[0] if call.args else None
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        source = operand(given) if isinstance(given, ast.Call) and next(calls_in(given, "state_dict"), 0) else None
        into, out_of = words_of(name_of(owner)), words_of(name_of(source))
        if into & _TRAINED and "target" not in into and "target" in out_of:
            words = f"{ast.unparse(call)} puts the target network in the place of the one that is trained"
            yield "formula", words, call.lineno


def _other_action(tree: ast.AST) -> Iterator[Found]:
    """A policy gradient is of the actions that were taken (Williams 1992, equation 4), not of others drawn since."""
    for call in calls_in(tree, "log_prob"):
        given = call.args[0] if len(call.args) == 1 else None
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_drawn = isinstance(given, ast.Call) and next(calls_in(given, "sample"), None) is given
        if owner is None or not is_drawn or given is None or ast.unparse(given) != f"{ast.unparse(owner)}.sample()":
            continue
        names = {name for name, value, _ in assignments(tree) if any(one is call for one in walked(value))}
        if any(_is_rewarded(node, names, call) for node in walked(tree)):
            words = f"{ast.unparse(call)} is the probability of an action that is drawn for it, and that nobody took"
            yield "formula", words, call.lineno


def _is_rewarded(node: ast.AST, names: set[str], call: ast.Call) -> bool:
    """Return whether a product multiplies this log-probability by an advantage or return."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    held = [find(side, lambda one: one is call or (isinstance(one, ast.Name) and one.id in names))
            for side in (node.left, node.right)]  # fmt: skip
    gained = [bool(words_in(side) & _GAINS) for side in (node.left, node.right)]
    return (held[0] and gained[1]) or (held[1] and gained[0])


def _logarithm_as_scale(tree: ast.AST) -> Iterator[Found]:
    """A normal distribution is given its deviation, and not the logarithm of it."""
    for call in calls_in(tree, "Normal", "LogNormal", "Laplace"):
        scale = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "scale"), None)
        words = words_of(name_of(scale))
        is_made_one = any(name == name_of(scale) and words_in(value) & _RISING for name, value, _ in assignments(tree))
        if is_made_one:
            continue
        if ("log" in words and words & _DEVIATIONS) or words & _LOG_DEVIATIONS:
            yield "formula", f"{ast.unparse(call)} takes a logarithm for the deviation", call.lineno


def _entropy_kind(words: set[str]) -> str:
    """Return what a term of the gap between an entropy and its target is, by its words; empty for others."""
    if words & {"target", "desired"}:
        return "target" if words & {"entropy", "ent"} else ""
    if words & {"entropy", "ent"}:
        return "entropy"
    return "likelihood" if words & _LOG else ""


def _is_discounted(value: ast.expr, name: str) -> bool:
    """Return whether a value holds its own earlier one, times a discount."""

    def is_product(node: ast.AST) -> bool:
        is_times = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        names = {one.id for one in walked(node) if isinstance(one, ast.Name)}
        return is_times and name in names and bool(words_in(node) & _DISCOUNTS)

    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and find(value, is_product)


def _squashed(tree: ast.AST) -> Iterator[Found]:
    """Squashing takes log(1 - tanh(u)^2) off the log-probability (arXiv:1801.01290, equation 21)."""
    for node in walked(tree):
        if isinstance(node, ast.AugAssign):
            is_likelihood = bool(words_of(name_of(node.target)) & _LIKELIHOODS)
            sides = [(term, sign if isinstance(node.op, ast.Add) else -sign) for term, sign in terms(node.value)]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            sides = list(terms(node.value))
            is_likelihood = any(sign > 0 and _LIKELIHOODS & words_in(term) for term, sign in sides)
        else:
            continue
        if is_likelihood and any(sign > 0 and _is_squashing(term) for term, sign in sides):
            yield "sign", f"{ast.unparse(node)} adds the logarithm of the slope, which is taken off", node.lineno


def _is_squashing(term: ast.expr) -> bool:
    """Return whether a term is log(1 - a^2), also with something small in it."""
    term = inner(term)
    given = operand(term) if isinstance(term, ast.Call) and called(term) == "log" else None
    for part in walked(given) if given is not None else ():
        rest = rest_of_one(part)
        if rest is not None and squared(rest) is not None:
            return True
    return False


def _old_of_the_reference(tree: ast.AST) -> Iterator[Found]:
    """The old policy is the one that sampled; a reference beside it is for the divergence (arXiv:2402.03300, eq. 3)."""
    of_reference = [(name, value, line) for name, value, line in assignments(tree) if _asks_reference(value)]
    if not any(words_of(name) & _REFERENCES for name, _, _ in of_reference):
        return
    for name, value, line in of_reference:
        if words_of(name) & _OLD and not words_of(name) & _REFERENCES:
            yield "formula", f"{name} = {ast.unparse(value)} asks the reference, not the policy that sampled", line


def _asks_reference(value: ast.expr) -> bool:
    """Return whether a call is one of the reference, or is given it and no other network."""
    if not isinstance(value, ast.Call):
        return False
    words = [words_of(name_of(one)) for one in (value.func, *value.args)]
    asked = any(one & _REFERENCES for one in words)
    return asked and not any(one & {"policy", "actor", "model", "net"} and not one & _REFERENCES for one in words)


def _value_loss_subtracted(tree: ast.AST) -> Iterator[Found]:
    """The loss of the values is added to that of the policy (arXiv:1707.06347, equation 9, which is to be raised)."""
    for name, value, line in assignments(tree):
        if words_of(name) not in ({"loss"}, {"total", "loss"}):
            continue
        parts = list(terms(value))
        policy = [sign for one, sign in parts if "loss" in words_in(one) and words_in(one) & _POLICIES]
        for term, sign in parts:
            chosen = [one for one in factors(term)[0] if "loss" in words_in(one) and words_in(one) & _VALUES]
            if sign * factors(term)[1] < 0 and chosen and policy == [1]:
                yield "sign", f"{name} raises {ast.unparse(chosen[0])}: it is taken off the loss of the policy", line


def _paid_for_divergence(tree: ast.AST) -> Iterator[Found]:
    """A policy pays for leaving the reference: r - beta KL (Ziegler et al. 2019, arXiv:1909.08593, equation 2)."""
    for name, value, line in assignments(tree):
        if not words_of(name) & {"reward", "rewards"} or words_of(name) & {"loss"}:
            continue
        for term, sign in terms(value):
            parts, inside = factors(term)
            for part in (inner(one) for one in parts if len(parts) > 1):
                is_kl = isinstance(part, ast.Name) and part.id in _DIVERGENCES
                is_gap = isinstance(part, ast.BinOp) and is_difference(part) and _leaves_the_reference(part)
                if sign * inside > 0 and (is_kl or is_gap):
                    yield "sign", f"{name} pays for leaving the reference: {ast.unparse(term)} without a minus", line


def _leaves_the_reference(gap: ast.BinOp) -> bool:
    """Return whether a difference is a log-probability less that of the reference."""
    left, right = words_in(gap.left), words_in(gap.right)
    return bool(left & _LOG) and bool(right & _LOG) and bool(right & _REFERENCES) and not left & _REFERENCES


def _actor_lowers_values(tree: ast.AST) -> Iterator[Found]:
    """An actor raises the critic's value of what it does (Silver et al. 2014, equation 9; arXiv:1801.01290, eq. 12)."""
    known = {name: value for name, value, _ in assignments(tree)}
    for name, value, line in assignments(tree):
        if not {"loss"} < words_of(name) or not words_of(name) & _ACTORS or _is_used_negated(tree, name):
            continue
        for term, sign in terms(value):
            made = known.get(term.id) if isinstance(term, ast.Name) else None
            has_minus = find(term if made is None else made, lambda one: isinstance(one, ast.USub | ast.Sub))
            words = words_in(term)
            is_value = isinstance(term, ast.Name | ast.Call) and bool(words & _JUDGED)
            if sign > 0 and is_value and not has_minus and not words & (_COSTS | {"target", "loss", "cost", "mse"}):
                yield "sign", f"{name} lowers {ast.unparse(term)}, the value of what the actor does", line


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _ratio,
    _surrogate,
    _descent,
    _twin_maximum,
    _forward_discount,
    _past_rewards,
    _temperature,
    _back_into_the_trained,
    _logarithm_as_scale,
    _other_action,
    _squashed,
    _old_of_the_reference,
    _value_loss_subtracted,
    _paid_for_divergence,
    _actor_lowers_values,
)
