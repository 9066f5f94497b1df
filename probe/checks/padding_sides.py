"""Do rows of tokens have their padding on one side in training and in evaluation?"""

from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from .check_result import CheckResult, broken

SIDES: Final = "padding_stays_on_its_side"
_CLAIM: Final = "an evaluation has the padding of its rows on the side on which the training has it"
#: Padded rows of the training, and of an evaluation, that must be seen, and positions of a row. Our choice.
_LEARNED, _SEEN, _POSITIONS = 32, 4, 4
#: Batches of the training that are looked at.
_MOST_BATCHES: Final = 64


@dataclass(slots=True)
class PaddingSides:
    """On which side the rows of a training are padded with zeros.

    Training with the padding behind the tokens and generating with it before them is usual, so only a training that
    pads before is held against an evaluation.

    Args:
        before, others: Rows of the training with zeros before their tokens only, and those with any others.
    """

    before: int = 0
    others: int = 0
    batches: int = 0
    is_told: bool = False

    def learn(self, tokens: NDArray[Any]) -> None:
        """Note the rows of a batch of the training, `(rows, positions)` of whole numbers."""
        if self.batches < _MOST_BATCHES:
            self.batches += 1
            before, _, others = _sides_of(tokens)
            self.before, self.others = self.before + before, self.others + others

    def evaluated(self, tokens: NDArray[Any]) -> CheckResult | None:
        """Return, once, that an evaluation is padded behind its tokens where the training is padded before them."""
        if self.is_told or self.before < _LEARNED or self.others:
            return None
        before, behind, others = _sides_of(tokens)
        if before or behind < _SEEN or behind != others:
            return None
        self.is_told = True
        words = (
            f"{self.before} padded rows of the training have their zeros before the tokens, and the {behind} padded "
            "rows of an evaluation's batch behind them"
        )
        return broken(SIDES, _CLAIM, words, rows=float(behind))


def _sides_of(tokens: NDArray[Any]) -> tuple[int, int, int]:
    """Return how many rows have zeros before their tokens only, behind them only, and in any way but the first."""
    if tokens.ndim != 2 or tokens.shape[1] < _POSITIONS:
        return 0, 0, 0
    is_token = tokens != 0
    counts = is_token.sum(1)
    first, last = is_token.argmax(1), tokens.shape[1] - is_token[:, ::-1].argmax(1)
    is_whole = (counts > 0) & (last - first == counts)
    before = is_whole & (first > 0) & (last == tokens.shape[1])
    behind = is_whole & (first == 0) & (last < tokens.shape[1])
    padded = (counts > 0) & (counts < tokens.shape[1])
    return int(before.sum()), int(behind.sum()), int((padded & ~before).sum())
