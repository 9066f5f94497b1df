"""Which rules are asked about the next record: all that need something of it, but those that rest."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..storage import StepRecord
from .context.step_context import Moment, Rest, Stretch
from .rule import Check, Rule

_log = logging.getLogger(__name__)

#: A rule with its memory and what it signs with.
Asked = tuple[Rule, Check, object, tuple[str, str, int]]
#: Records of which less are not worth a look at all of them, and a place that is never reached (our choice).
_FEWEST, _NEVER = 3, 2**62
#: Under this name the optimizers' bounds rest.
_BOUNDS = ""


@dataclass(slots=True)
class Kind:
    """Records that carry the same: what that is, the rules to ask, and how many there were since last counted."""

    carries: frozenset[str]
    asked: tuple[Asked, ...]
    records: int = 0


@dataclass(frozen=True, slots=True)
class _Resting:
    """From which record of the burst, and until before which, somebody rests, and how it learns of so many."""

    begin: int
    end: int
    learn: Callable[[int], object]


@dataclass(slots=True)
class Rota:
    """The records that are expected, and who rests while they come.

    Args:
        records: In their order; none where nothing is known of what comes.
        at: Which of them is the next.
    """

    records: Sequence[StepRecord] = ()
    at: int = 0
    _resting: dict[str, _Resting] = field(default_factory=dict)
    _looks: dict[str, int] = field(default_factory=dict)
    _wakes_at: int = _NEVER
    _looks_at: int = 0
    _asked: dict[int, tuple[Asked, ...]] = field(default_factory=dict)

    def expects(self, record: StepRecord) -> bool:
        """Whether this is the next record."""
        return self.at < len(self.records) and self.records[self.at] is record

    def stop(self) -> None:
        """What was expected does not come any more."""
        self.records = self.records[: self.at]

    def begin(self, records: Sequence[StepRecord]) -> None:
        """Expects these records; everybody has been woken."""
        self.records, self.at, self._looks_at = records, 0, 0
        self._looks.clear()
        self._asked.clear()

    @property
    def is_within_bounds(self) -> bool:
        """Whether it is known already that nothing in the next record is beyond the optimizers' bounds."""
        return _BOUNDS in self._resting

    def wake(self, *, everybody: bool = False) -> Iterator[tuple[str, Callable[[], object]]]:
        """Those whose rest ends before the next record, by name, and what has them learn of it."""
        if self.at < self._wakes_at and not everybody:
            return
        self._asked.clear()
        for name, one in list(self._resting.items()):
            if everybody or one.end <= self.at:
                del self._resting[name]
                self._look_again(name, self.at + 1)
                yield name, partial(one.learn, min(self.at, one.end) - one.begin)
        self._wakes_at = min((one.end for one in self._resting.values()), default=_NEVER)

    def asked(self, kind: Kind, now: Moment) -> tuple[Asked, ...]:
        """The rules to ask about the next record, once those rest that have nothing to say of it and those after it."""
        if self.at >= self._looks_at and len(self.records) - self.at >= _FEWEST:
            self._look(kind, now)
        known = self._asked.get(id(kind))
        if known is None:
            known = self._asked[id(kind)] = tuple(one for one in kind.asked if one[0].name not in self._resting)
        return known

    def _look(self, kind: Kind, now: Moment) -> None:
        self._looks_at = _NEVER
        stretch = Stretch(now, self.records[self.at :])
        if (bounds := self._resting.get(_BOUNDS)) is not None:
            stretch.bounds = Rest(bounds.end - self.at)
        for rule, _, memory, _ in kind.asked:
            if rule.rests is None or rule.name in self._resting:
                continue
            if self._looks.get(rule.name, 0) > self.at:
                self._looks_at = min(self._looks_at, self._looks[rule.name])
            else:
                self._lie_down(rule.name, _rest(rule, stretch, memory))
        if bounds is None and stretch.bounds is not None:
            self._lie_down(_BOUNDS, stretch.bounds)
        self._asked.clear()

    def _lie_down(self, name: str, rest: Rest | None) -> None:
        """Goes to rest if that is long enough, and looks again at the record after the one that it is asked about."""
        if rest is None:
            self._look_again(name, _NEVER)
        elif rest.records < _FEWEST:
            self._look_again(name, self.at + rest.records + 1)
        else:
            end = self.at + rest.records
            self._resting[name] = _Resting(self.at, end, rest.learn)
            self._wakes_at = min(self._wakes_at, end)

    def _look_again(self, name: str, at: int) -> None:
        self._looks[name] = at
        self._looks_at = min(self._looks_at, at)


def _rest(rule: Rule, stretch: Stretch, memory: object) -> Rest | None:
    try:
        return rule.rests(stretch, memory) if rule.rests is not None else None
    except Exception:  # noqa: BLE001 - a rule of whatever quality must never harm the run: it is asked about each
        _log.warning("rule %s could not say whether it may rest", rule.name, exc_info=True)
        return None
