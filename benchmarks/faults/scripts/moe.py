"""The language model whose feed-forward parts are mixtures of experts."""

from typing import Any

from ..table import script
from .lm import Gpt, LanguageModel

EXPERTS = 4


@script("moe")
class MixtureOfExperts(LanguageModel):
    """A causal language model with four experts a block and a loss that balances them."""

    balance_weight = 0.05

    def build(self) -> Any:
        """The decoder with experts."""
        return Gpt(experts=EXPERTS)

    def loss(self, model: Any, tokens: Any, targets: Any) -> Any:
        """Cross entropy and the weighted balance."""
        entropy = super().loss(model, tokens, targets)
        return entropy + self.balance_weight * sum(block.mlp.balance for block in model.blocks)
