"""Decides which rules check the next record: all that need something of it, except those inside a skip window."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..storage import StepRecord
from .context.step_context import Lookahead, SkipWindow, StepContext
from .rule import Check, Rule
from .rule_faults import RuleFaults

#: A rule, its check and its state.
RuleCall = tuple[Rule, Check, object]
#: Fewer records than this are not worth a lookahead, and an index that is never reached (our choice).
_FEWEST, _NEVER = 3, 2**62
#: The name under which the optimizers' bounds have their skip window.
_BOUNDS = ""


@dataclass(slots=True)
class RecordKind:
    """Records that carry the same: what they carry, the rules to call, and how many came since the last count."""

    carries: frozenset[str]
    calls: tuple[RuleCall, ...]
    records: int = 0


@dataclass(frozen=True, slots=True)
class _OpenWindow:
    """A skip window that is open: its first record, the record after its last, and how the rule learns of them."""

    begin: int
    end: int
    learn: Callable[[int], object]


@dataclass(slots=True)
class RuleScheduler:
    """The records that are expected, and the rules that skip some of them.

    Args:
        faults: Where rules that raise are told of.
        records: In their order; empty if the coming records are not known.
        index: Of the next record.
    """

    faults: RuleFaults
    records: Sequence[StepRecord] = ()
    index: int = 0
    _windows: dict[str, _OpenWindow] = field(default_factory=dict)
    _next_lookahead: dict[str, int] = field(default_factory=dict)
    _closes_at: int = _NEVER
    _looks_ahead_at: int = 0
    _calls: dict[int, tuple[RuleCall, ...]] = field(default_factory=dict)

    def expects(self, record: StepRecord) -> bool:
        """Return whether this is the next expected record."""
        return self.index < len(self.records) and self.records[self.index] is record

    def stop(self) -> None:
        """Drop the records that are still expected."""
        self.records = self.records[: self.index]

    def begin(self, records: Sequence[StepRecord]) -> None:
        """Expect these records; all skip windows must be closed."""
        self.records, self.index, self._looks_ahead_at = records, 0, 0
        self._next_lookahead.clear()
        self._calls.clear()

    @property
    def is_within_bounds(self) -> bool:
        """True when no parameter moves beyond its optimizer's bounds in the next record; this is known already."""
        return _BOUNDS in self._windows

    def close_windows(self, *, close_all: bool = False) -> Iterator[tuple[str, Callable[[], object]]]:
        """Close the skip windows that end before the next record; yield each rule's name and how its state learns."""
        if self.index < self._closes_at and not close_all:
            return
        self._calls.clear()
        for name, window in list(self._windows.items()):
            if close_all or window.end <= self.index:
                del self._windows[name]
                self._look_ahead_again(name, self.index + 1)
                yield name, partial(window.learn, min(self.index, window.end) - window.begin)
        self._closes_at = min((window.end for window in self._windows.values()), default=_NEVER)

    def calls(self, kind: RecordKind, context: StepContext) -> tuple[RuleCall, ...]:
        """Return the rules to call for the next record; open skip windows for rules that have nothing to report."""
        if self.index >= self._looks_ahead_at and len(self.records) - self.index >= _FEWEST:
            self._look_ahead(kind, context)
        calls = self._calls.get(id(kind))
        if calls is None:
            calls = self._calls[id(kind)] = tuple(call for call in kind.calls if call[0].name not in self._windows)
        return calls

    def _look_ahead(self, kind: RecordKind, context: StepContext) -> None:
        self._looks_ahead_at = _NEVER
        lookahead = Lookahead(context, self.records[self.index :])
        if (bounds := self._windows.get(_BOUNDS)) is not None:
            lookahead.bounds = SkipWindow(bounds.end - self.index)
        for rule, _, state in kind.calls:
            if rule.skip_window is None or rule.name in self._windows:
                continue
            if self._next_lookahead.get(rule.name, 0) > self.index:
                self._looks_ahead_at = min(self._looks_ahead_at, self._next_lookahead[rule.name])
            else:
                self._open_window(rule.name, self._skip_window(rule, lookahead, state))
        if bounds is None and lookahead.bounds is not None:
            self._open_window(_BOUNDS, lookahead.bounds)
        self._calls.clear()

    def _open_window(self, name: str, window: SkipWindow | None) -> None:
        """Open the window if it is long enough; otherwise look ahead again at the record after it."""
        if window is None:
            self._look_ahead_again(name, _NEVER)
        elif window.records < _FEWEST:
            self._look_ahead_again(name, self.index + window.records + 1)
        else:
            end = self.index + window.records
            self._windows[name] = _OpenWindow(self.index, end, window.learn)
            self._closes_at = min(self._closes_at, end)

    def _look_ahead_again(self, name: str, index: int) -> None:
        self._next_lookahead[name] = index
        self._looks_ahead_at = min(self._looks_ahead_at, index)

    def _skip_window(self, rule: Rule, lookahead: Lookahead, state: object) -> SkipWindow | None:
        try:
            return rule.skip_window(lookahead, state) if rule.skip_window is not None else None
        except Exception as error:  # noqa: BLE001 - a rule of whatever quality must never harm the run: it checks all
            self.faults.tell(rule.name, "failed to find its skip window", error)
            return None
