"""What a defence against queries costs the attacker, and what it costs everybody else."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..contract.result import AttackResult
from ..errors import InvalidInput


@dataclass(frozen=True, slots=True)
class QueryDefence:
    """A defended service beside the one without the defence, under the same black-box attack.

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
    """The four numbers of a defence, at the last budget of both attacks.

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
