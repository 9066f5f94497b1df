"""Weights that a program assigns: they are overwritten when nobody reads the old values any more."""

from .scope import Scope
from .values import Value, lies_in_any

__all__ = ["Assignments"]


class Assignments:
    """The assignments that are not written yet.

    Args:
        scope: Where the program is.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._pending: list[tuple[Value, Value]] = []

    def assign(self, target: Value, value: Value) -> Value:
        """The new value; the weight itself is overwritten when nobody reads its old one any more, at the latest."""
        self._pending.append((target, value))
        return value

    def flush(self) -> None:
        """Writes the assigned weights; what is still to be read of an old one is kept first."""
        targets = {target.name: target for target, _ in self._pending}
        if not targets:
            return
        newest = {target.name: value for target, value in self._pending}
        self._pending = []
        held = {}
        for name, value in newest.items():
            is_own = value.is_static and not value.owners
            held[name] = self._scope.code.copied(value) if is_own and value.name != name and len(newest) > 1 else value
        for node, value in self._scope.known():
            if self._scope.is_read_later(node) and lies_in_any(value, targets.values()):
                self._scope.set(node, self._scope.code.copied(value))
        for name, value in held.items():
            if value.name != name:
                self._scope.code.line(f"copyto({name}, {value.name}, casting='unsafe')", value)
