"""What a name says that its value is for."""

import re
from collections.abc import Mapping
from typing import Final, Literal

Purpose = Literal["mask", "end", "weight", "length", "order", "term", "setting", "plan", "layer", "function"]

#: Words that a name is made of. Our choice: values of other names are left unread for good reasons.
_PURPOSES: Final[Mapping[Purpose, frozenset[str]]] = {
    "mask": frozenset({"mask", "masks", "masked", "padding"}),
    "end": frozenset({"done", "dones", "terminal", "terminals", "nonterminal", "nonterminals"}),
    "weight": frozenset({"weight", "weights", "importance", "coefficient", "coefficients"}),
    "length": frozenset({"length", "lengths", "lens", "seqlen", "seqlens"}),
    "order": frozenset({"perm", "permutation", "shuffled"}),
    "term": frozenset(
        {"loss", "kl", "kld", "penalty", "aux", "regularizer", "regulariser", "commitment", "entropy", "bonus"}
    ),
    "setting": frozenset(
        {
            "gamma", "beta", "betas", "lambda", "lam", "alpha", "tau", "temperature", "temp", "eps", "epsilon", "clip",
            "margin", "warmup", "decay", "momentum", "dropout", "lr", "smoothing", "coef", "coeff", "discount", "sigma",
            "scale", "scaling", "wd", "ema", "spread", "std", "stdev",
        }
    ),
}  # fmt: skip
#: Words of what belongs to the training, and to its evaluation.
TRAINING: Final = frozenset({"train", "training", "trn", "tr"})
EVALUATION: Final = frozenset(
    {"test", "testing", "tst", "te", "val", "valid", "validation", "dev", "eval", "evaluation"}
)
#: Words of counters: `updates_done` is no end of an episode.
_COUNTS: Final = frozenset({"n", "num", "count", "counts", "steps", "updates", "episodes", "epochs", "total"})
#: Words for the parts of a transition, and how many others one has.
_FEWEST_BESIDE: Final = 3
REWARDS: Final = frozenset({"r", "rew", "rews", "reward", "rewards", "rs"})
RETURNS: Final = frozenset({"ret", "rets", "returns", "nstep"})
DISCOUNTS: Final = frozenset({"disc", "discount", "discounts", "gammas"})
_DONE_BY: Final = frozenset({"a", "act", "acts", "action", "actions", "u"})
_SHORT_ENDS: Final = frozenset({"d", "ds", "dn", "dw", "nd", "term", "terms", "terminated", "end", "ends"})
_PREPARES: Final = frozenset(
    {
        "prep", "preprocess", "preprocessor", "preprocessing", "norm", "normalizer", "normaliser", "normalize",
        "normalise", "normalization", "scaler", "standardize", "standardise", "standardizer", "obs_norm", "obs_rms",
        "running_norm", "obs_normalizer", "state_norm",
    }
)  # fmt: skip
_ACTIONS: Final = frozenset(
    {
        "update", "sync", "soft", "polyak", "ema", "augment", "normalize", "normalise", "mask", "clip", "warmup",
        "shuffle", "init", "reset", "anneal", "freeze",
    }
)  # fmt: skip


def purpose_of(name: str) -> Purpose | None:
    """Return what a value of this name is for, as its words say; None if they say nothing that is looked for."""
    words = words_of(name)
    known = (purpose for purpose, spelled in _PURPOSES.items() if not spelled.isdisjoint(words))
    found = None if name.startswith("_") else next(known, None)
    return None if found == "end" and not words.isdisjoint(_COUNTS) else found


def prepares(name: str) -> bool:
    """Return whether a function's parameter is what brings inputs to the scale of training, by its whole name."""
    return name in _PREPARES


def ends_transition(name: str, beside: frozenset[str]) -> bool:
    """Return whether a short name is that of an episode's end, since those beside it are an action's and a reward's."""
    words = set[str]().union(*map(words_of, beside))
    is_transition = bool(words & REWARDS) and bool(words & _DONE_BY) and len(beside) >= _FEWEST_BESIDE
    return is_transition and not words_of(name).isdisjoint(_SHORT_ENDS)


def acts_in_transition(name: str, beside: frozenset[str]) -> bool:
    """Return whether a name is that of the action of a transition, beside its reward and its end."""
    words = set[str]().union(*map(words_of, beside))
    is_transition = bool(words & (REWARDS | RETURNS)) and bool(words & (_SHORT_ENDS | _PURPOSES["end"] | DISCOUNTS))
    return is_transition and len(beside) >= _FEWEST_BESIDE and not words_of(name).isdisjoint(_DONE_BY)


def is_action(name: str) -> bool:
    """Return whether a function of this name does something to a training that is missed where nobody calls it."""
    return name[:1].islower() and not _ACTIONS.isdisjoint(words_of(name))


def words_of(name: str) -> set[str]:
    """Return the words of `snake_case`, `camelCase` or both, in lower case."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))
