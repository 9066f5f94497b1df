"""A network that is frozen for the moment, so that a gradient passes through it, and gets none to pass on."""

from collections.abc import Iterator, Sequence

from .bounded_outputs import NetworkCall
from .check_result import CheckResult, broken
from .loss_terms import CLAIM, SAY


def frozen_answers(calls: Sequence[NetworkCall]) -> Iterator[CheckResult]:
    """Yield a result for each network that is trained in a step, and frozen in a later call of it for nothing.

    An actor's loss asks the critic, whose parameters are set to need no gradient meanwhile. Then the answer is a
    constant, unless the action has a gradient.

    Args:
        calls: All calls of the step, in order.
    """
    for site in sorted({call.site for call in calls if call.is_frozen}):
        mine = [call for call in calls if call.site == site and call.is_taught]
        frozen = [call for call in mine if call.is_frozen]
        is_trained = any(not call.is_frozen and any(one.grad_fn is not None for one in call.outputs) for call in mine)
        if frozen and is_trained and not any(call.takes_gradient for call in frozen):
            words = (
                f"the parameters of {site or 'the network'} are frozen for a call with gradients enabled, and nothing "
                "that it is given has a gradient: what it answers there is a constant"
            )
            yield broken(SAY, CLAIM, words, subject=site)
