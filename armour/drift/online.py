"""Drift as values arrive one by one: Page and Hinkley's test of the mean of a stream, such as the loss or an error."""

import math

from ..errors import InvalidInput


class PageHinkley:
    """Tells when the mean of a stream has risen; it starts anew after each alarm.

    Args:
        tolerance: Rises smaller than this are ignored, in units of the stream.
        threshold: How much rise is gathered before the alarm; larger is slower and surer.
        patience: Values that are seen before any alarm.

    Reference:
        Page 1954, Biometrika 41; in the form of Gama et al. 2014, ACM Computing Surveys 46, section 3.2.2.
    """

    def __init__(self, *, tolerance: float = 0.005, threshold: float = 50.0, patience: int = 30) -> None:
        if not (tolerance >= 0 and threshold > 0 and patience >= 1):
            raise InvalidInput(
                f"tolerance, threshold, patience expect 0 or more, above 0, 1 or more; "
                f"got {tolerance}, {threshold}, {patience}"
            )
        self._tolerance, self._threshold, self._patience = tolerance, threshold, patience
        self.drifts: list[int] = []
        self._seen = 0
        self._count, self._mean, self._gathered = 0, 0.0, 0.0

    def update(self, value: float) -> bool:
        """Whether the stream has drifted with this value; its number is then appended to `drifts`."""
        if not math.isfinite(value):
            raise InvalidInput(f"value number {self._seen} of the stream expects a finite number, got {value}")
        self._seen += 1
        self._count += 1
        self._mean += (value - self._mean) / self._count
        self._gathered = max(0.0, self._gathered + value - self._mean - self._tolerance)
        if self._count < self._patience or self._gathered <= self._threshold:
            return False
        self.drifts.append(self._seen - 1)
        self._restart()
        return True

    def _restart(self) -> None:
        self._count, self._mean, self._gathered = 0, 0.0, 0.0
