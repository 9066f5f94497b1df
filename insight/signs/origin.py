"""The operation that made the first value that is not finite, where the monitor has traced it."""

from ...storage import Json
from ..view.moment import Moment

__all__ = ["traced_origin"]


def traced_origin(now: Moment) -> str:
    """What the trace of this step says, as the end of a sentence; empty without one."""
    for event in now.events("first_bad_operation"):
        data = event.data
        where = f" at {data['file']}:{data['line']}" if data.get("file") else ""
        code = f" ({data['code']})" if data.get("code") else ""
        if data.get("source") == "one of these":
            return f"; the loss was made by {data['operation']}"
        if data.get("source"):
            return (
                f"; the first operation that shows it is {data['operation']}{where}{code}, its inputs were bad already"
            )
        return f"; the first bad operation is {data['operation']}{where}{code}{_range(data.get('inputs'))}"
    return ""


def _range(inputs: Json) -> str:
    first = inputs[0] if isinstance(inputs, list) and inputs else None
    if not isinstance(first, dict):
        return ""
    low, high = first.get("min"), first.get("max")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return ""
    return f", whose first input lies in [{low:.4g}, {high:.4g}]"
