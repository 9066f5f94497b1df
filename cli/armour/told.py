"""What several commands say about an outcome, in one line."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...storage import Outcome


def query_line(outcome: "Outcome") -> str:
    """What a defence against queries costs both sides."""
    details: Any = outcome.details
    return (
        f"{outcome.attack}: {details['query_count_variance']:+.1%} of {details['allowed']} queries, "
        f"{details['success_variance']:.1%} fewer attacks succeed, {details['false_positive_rate']:.1%} false alarms, "
        f"answers {details['response_time_variance']:+.0%} slower"
    )
