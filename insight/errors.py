"""The exceptions of insight.

InsightError(RuntimeError)
├── UnknownRule(KeyError)      no rule of that name
├── InvalidRule(ValueError)    a rule that cannot be entered into the table
├── UnknownField(KeyError)     no run has a field of that name
├── UnreadableDump(ValueError) a file of another program that cannot be read
├── WrongCondition(ValueError) a condition that does not read as one
├── InvalidLandscape(ValueError) directions that are no plane, or values that do not fit the parameters
└── UnreadableTrace(ValueError) a file that is no trace, or traces that are not of one job
"""


class InsightError(RuntimeError):
    """Anything that stops insight from doing what was asked."""


class UnknownRule(InsightError, KeyError):
    """No rule answers to that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidRule(InsightError, ValueError):
    """The rule's entry contradicts the table or itself."""


class UnknownField(InsightError, KeyError):
    """No run has a field of that name, or several fields answer to it."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnreadableDump(InsightError, ValueError):
    """A file of another program is in no format that is known."""


class WrongCondition(InsightError, ValueError):
    """The text does not read as a condition."""


class InvalidLandscape(InsightError, ValueError):
    """The directions do not span a plane, or the values do not belong to the parameters."""


class UnreadableTrace(InsightError, ValueError):
    """The file is no trace that can be read, or the files are not traces of one job."""
