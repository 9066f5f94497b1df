"""The cost of a defence against queries, for the attacker and for benign users."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..array_api import Images, to_numpy
from ..attacks import Square
from ..contract.attack_result import AttackResult
from ..detectors import Alarm
from ..errors import InvalidInput
from ..model import WrappedModel


@dataclass(frozen=True, slots=True)
class QueryDefence:
    """A defended service compared with the undefended one under the same black-box attack.

    Args:
        query_count_variance: QCV: additional queries a sample, as a share of those allowed; 1 where the defence alone
            makes the attack use all of them.
        success_variance: ASV: by how much the attack's success rate falls.
        false_positive_rate: FPR: share of benign queries that are taken for an attack.
        response_time_variance: QRV: relative increase of the time that a benign query takes.
    """

    query_count_variance: float
    success_variance: float
    false_positive_rate: float
    response_time_variance: float


def query_defence(
    raw: AttackResult,
    defended: AttackResult,
    allowed: int,
    *,
    benign_flags: ArrayLike,
    raw_seconds: ArrayLike,
    defended_seconds: ArrayLike,
) -> QueryDefence:
    """Measure the four numbers of a defence, at the last budget of both attacks.

    Samples that either model gets wrong without an attack are left out of the first two numbers.

    Args:
        raw: An attack on the model without the defence.
        defended: The same attack on the same samples of the defended model.
        allowed: Queries a sample that the attack may use.
        benign_flags: `(m,)` whether the defence took each benign query for an attack.
        raw_seconds: Times that benign queries take without the defence.
        defended_seconds: The same with it.

    Raises:
        InvalidInput: The samples differ in number, none was attacked, or there is no benign query.
    """
    flags = np.asarray(benign_flags, np.bool_)
    before, after = np.asarray(raw_seconds, np.float64), np.asarray(defended_seconds, np.float64)
    if raw.already.shape != defended.already.shape or allowed < 1 or not (flags.size and before.size and after.size):
        raise InvalidInput(
            "expected the same samples twice, allowed of 1 or more and one benign query or more, got "
            f"{len(raw.already)} and {len(defended.already)} samples, allowed={allowed}, {flags.size} benign flags and "
            f"{before.size} and {after.size} times"
        )
    attacked = ~(raw.already | defended.already)
    if not attacked.any():
        raise InvalidInput("expected a sample that both models get right without an attack, got none")
    queries = [float(result.queries[-1][attacked].mean()) for result in (raw, defended)]
    successes = [float(result.success[-1][attacked].mean()) for result in (raw, defended)]
    is_exhausted = queries[1] >= allowed > queries[0]
    return QueryDefence(
        query_count_variance=1.0 if is_exhausted else min(queries[1] - queries[0], allowed) / allowed,
        success_variance=successes[0] - successes[1],
        false_positive_rate=float(flags.mean()),
        response_time_variance=float(after.mean() / before.mean() - 1),
    )


_TIMED: Final = 50  # benign queries whose times are taken: our choice


def ask_both(
    bare: WrappedModel,
    defended: WrappedModel,
    x: Images,
    y: ArrayLike,
    *,
    attack: Square,
    epsilon: float,
    alarm: Alarm | None = None,
    seed: int = 0,
) -> tuple[QueryDefence, float]:
    """Measure what the defence costs the attacker and benign users, and the accuracy that the attack leaves with it.

    Args:
        bare: Without the defence.
        defended: With it; the same model where the alarm is all there is.
        x: `(n, ...)` inputs; the attack begins at them, and benign queries are they themselves.
        attack: Asks for logits.
        alarm: Looks at every query; an adversarial input that sets it off is no success.

    Raises:
        InvalidInput: No sample can be attacked.
    """
    raw = attack(bare, x, y, epsilons=[epsilon], seed=seed)
    guarded_result = _without_alarms(attack(defended, x, y, epsilons=[epsilon], seed=seed), alarm)

    def guarded(query: Images) -> None:
        if alarm is not None:
            alarm.flags(query)
        defended.logits(defended.native(query))

    seconds = _seconds(x[:_TIMED], lambda query: bare.logits(bare.native(query)), guarded)
    flags = np.zeros(len(x), np.bool_) if alarm is None else alarm.flags(x)
    found = query_defence(
        raw, guarded_result, attack.queries, benign_flags=flags, raw_seconds=seconds[0], defended_seconds=seconds[1]
    )
    return found, float(guarded_result.robust_accuracy[-1])


def _without_alarms(result: AttackResult, alarm: Alarm | None) -> AttackResult:
    """Return the result without the successes that raise the alarm."""
    if alarm is None:
        return result
    flags = np.stack([alarm.flags(to_numpy(found)) for found in result.adversarials])
    return replace(result, success=result.success & ~flags)


def _seconds(queries: Images, *answers: Callable[[Images], object]) -> tuple[list[float], ...]:
    """Time each answer to each query in turn; the first query is a warm-up that does not count."""
    times: tuple[list[float], ...] = tuple([] for _ in answers)
    for at in range(-1, len(queries)):
        query = queries[max(at, 0)][None]
        for answer, spent in zip(answers, times, strict=True):
            begin = time.perf_counter()
            answer(query)
            if at >= 0:
                spent.append(time.perf_counter() - begin)
    return times
