"""What can go wrong when a model is attacked.

ArmourError(Exception)
├── UnknownAttack(KeyError)      no attack, norm or option answers to that name
├── InvalidInput(ValueError)     inputs, labels, epsilons or bounds that cannot be what was meant
├── InvalidModel(TypeError)      the model is none, or does not return differentiable logits
└── InvalidSearch(RuntimeError)  an attack's own search broke its contract
"""


class ArmourError(Exception):
    """Anything that keeps an attack from being carried out or believed."""


class UnknownAttack(ArmourError, KeyError):
    """No attack, norm or option answers to that name; the message lists the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidInput(ArmourError, ValueError):
    """Inputs, labels, epsilons or bounds that cannot be what was meant."""


class InvalidModel(ArmourError, TypeError):
    """The model cannot be wrapped, or what it returns is not a batch of differentiable logits."""


class InvalidSearch(ArmourError, RuntimeError):
    """The search of an attack returned something that is not one candidate per sample."""
