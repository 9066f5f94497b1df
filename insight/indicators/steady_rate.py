"""Whether a learning rate is at work: neither in its warm-up nor near its end."""

from ..running_statistics import Window

#: Share of its highest below which a rate is at its end, and growth that rounding may make. Our choice.
_AT_ITS_END, _LEVEL = 0.1, 1.0001


class SteadyRate:
    """The newest learning rates, and the highest of all.

    Args:
        lasting: Records over which the rate must not rise.

    Attributes:
        rates: The newest ones.
    """

    def __init__(self, lasting: int) -> None:
        self.rates = Window(lasting)
        self._lasting, self._highest = lasting, 0.0

    def learn(self, rate: float | None) -> None:
        """Take the rate of a record, if it has one."""
        if rate is not None:
            self.rates.add(rate)
            self._highest = max(self._highest, rate)

    @property
    def is_steady(self) -> bool:
        """Whether the rate does not rise, and is no less than a tenth of its highest; so is one that is not known."""
        rates = self.rates.newest(self._lasting)
        return not rates or (rates[-1] <= _LEVEL * rates[0] and rates[-1] >= _AT_ITS_END * self._highest > 0)
