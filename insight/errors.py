"""What can go wrong when rules are declared or asked for.

InsightError(RuntimeError)
├── UnknownRule(KeyError)      no rule of that name
└── InvalidRule(ValueError)    a rule that cannot be entered into the table
"""


class InsightError(RuntimeError):
    """Anything that stops insight from doing what was asked."""


class UnknownRule(InsightError, KeyError):
    """No rule answers to that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidRule(InsightError, ValueError):
    """The rule's entry contradicts the table or itself."""
