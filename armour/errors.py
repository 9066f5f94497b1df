"""Errors of attacks.

ArmourError(Exception)
├── UnknownAttack(KeyError)      no attack, norm or option has that name
├── InvalidInput(ValueError)     inputs, labels, epsilons or bounds are not valid
├── InvalidModel(TypeError)      the model is not a model, or does not answer what an attack asks it for
├── InvalidSearch(RuntimeError)  an attack's search broke its contract
└── QueriesExhausted(RuntimeError)  a predictor's query budget is spent
"""


class ArmourError(Exception):
    """An error that keeps an attack from running or its result from being valid."""


class UnknownAttack(ArmourError, KeyError):
    """No attack, norm or option has that name; the message lists the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidInput(ArmourError, ValueError):
    """Inputs, labels, epsilons or bounds are not valid."""


class InvalidModel(ArmourError, TypeError):
    """The model cannot be wrapped, or what it returns is not what the attack asks it for."""


class InvalidSearch(ArmourError, RuntimeError):
    """The search of an attack did not return one candidate per sample."""


class QueriesExhausted(ArmourError, RuntimeError):
    """A predictor's query budget is spent; attacks end with what they have found."""
