"""What a table of values must hold before it becomes records: whole numbers, numbers, and names, by column."""

from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from ...storage import InvalidName, split_metric
from ..errors import ImportFailed

__all__ = ["LONGEST_NAME", "checked_points"]

_Column: TypeAlias = "pd.Series[Any]"  # Any: whatever the file holds
#: The longest site or metric that is taken over: our choice, ten times the longest of the models that we know.
LONGEST_NAME: Final = 1000
_WHOLE: Final = {"step": (-(2**63), 2**63 - 1), "micro_step": (0, 2**31 - 1), "call": (0, 2**31 - 1)}
_NUMBERS: Final = ("time", "value")
_NAMES: Final = ("site", "metric")


def checked_points(table: pd.DataFrame, source: object) -> pd.DataFrame:
    """Return the table with the columns `step, micro_step, time, site, call, metric, value` in their types.

    Args:
        source: Where the table comes from, for errors.

    Raises:
        ImportFailed: A column holds what it must not; the message names the column and the first such value.
    """
    columns: dict[str, Any] = {}  # Any: columns of several types
    for name, (low, high) in _WHOLE.items():
        columns[name] = _whole(table[name], low, high, source)
    for name in _NUMBERS:
        columns[name] = _numbers(table[name], source)
    for name in _NAMES:
        columns[name] = _names(table[name], source)
    for metric in columns["metric"].unique():
        try:
            split_metric(metric)
        except InvalidName as error:
            raise ImportFailed(f"{source}: {error}") from error
    return pd.DataFrame(columns, index=table.index)


def _whole(column: _Column, low: int, high: int, source: object) -> _Column:
    is_whole = pd.api.types.is_integer_dtype(column.dtype) and not column.hasnans
    if is_whole and (column.empty or (int(column.min()) >= low and int(column.max()) <= high)):
        return column.astype("int64")
    found = [_whole_number(value) for value in column]
    for value, number in zip(column, found, strict=True):
        if number is None or not low <= number <= high:
            raise _refusal(source, column.name, f"a whole number from {low} to {high}", value)
    return pd.Series(found, index=column.index, dtype="int64")


def _whole_number(value: object) -> int | None:
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return int(value) if np.isfinite(value) and value == int(value) else None
    return None


def _numbers(column: _Column, source: object) -> _Column:
    if pd.api.types.is_float_dtype(column.dtype) or pd.api.types.is_integer_dtype(column.dtype):
        return column.astype("float64")
    found = []
    for value in column:
        if value is None:
            found.append(float("nan"))
        elif isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
            found.append(_float(value))
        else:
            raise _refusal(source, column.name, "a number", value)
    return pd.Series(found, index=column.index, dtype="float64")


def _float(value: Any) -> float:  # Any: a number of any kind
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _names(column: _Column, source: object) -> _Column:
    known = {}
    for value in column.unique() if column.map(_is_hashable).all() else column:
        if not isinstance(value, str):
            raise _refusal(source, column.name, "text", value)
        if len(value) > LONGEST_NAME:
            raise ImportFailed(
                f"{source}: column {column.name!r} holds names of at most {LONGEST_NAME} characters, got one of "
                f"{len(value)}, {value[:40]!r}...; shorten it"
            )
        if not _is_storable(value):
            raise _refusal(source, column.name, "text without null characters and halves of surrogate pairs", value)
        known[value] = value
    return column.map(known).astype(object)


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _is_hashable(value: object) -> bool:
    return isinstance(value, str | int | float | bytes | None)


def _refusal(source: object, column: object, expected: str, value: object) -> ImportFailed:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return ImportFailed(f"{source}: column {column!r} expects {expected}, got {shown}; mend or remove that row")
