"""Words of a text that are replaced by others of like meaning until a classifier changes its mind.

The search asks for scores alone. It ranks positions by how far the score of the label falls when the word is left out,
and goes through them in that order; at each one it takes, of the swaps that change the answer, the one whose text stays
most alike, or else the swap that lowers the score most.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .array_api import Floats, to_numpy
from .errors import InvalidInput, InvalidModel
from .model import WrappedModel

Words = tuple[str, ...]
#: Returns `(n, classes)` scores, larger for likelier classes, of n texts.
Scores = Callable[[list[Words]], ArrayLike]
#: Returns `(n,)` similarities of n changed texts to one, 1 where they are the same.
Similarity = Callable[[Words, list[Words]], ArrayLike]

_AT_ONCE: Final = 256  # texts in a call of the model


class Candidates(Protocol):
    """What may stand for a word; lists, neighbours in a table of vectors and thesauri are such."""

    def __call__(self, words: Words, position: int) -> Sequence[str]:
        """Return other words for the one at a position, the likeliest first; none where it must stay."""


@dataclass(frozen=True, slots=True)
class SwappedText:
    """What became of one text.

    Args:
        words: The text: adversarial where `success`, else as far as the search came.
        changed: Positions of changed words.
        success: Whether the model gives it another class than the label.
        skipped: Whether the model got the text itself wrong: it is not attacked.
        queries: Texts that the model was asked for.
        similarity: To the original.
    """

    words: Words
    changed: tuple[int, ...]
    success: bool
    skipped: bool
    queries: int
    similarity: float


@dataclass(frozen=True, slots=True)
class WordSwap:
    """Greedy swaps of words, the most important first.

    Args:
        candidates: What may stand for a word.
        similarity: Compares texts, as a sentence encoder does; None constrains candidates alone.
        least_similarity: Of a text to its original, where there is a similarity.
        most_changed: Share of the words of a text that may change; one always may.
        keep: Words, in lower case, that no swap touches, as stop words and negations.
        blank: What stands for a word that is left out, as `[UNK]`; None leaves it out.

    Reference:
        Jin et al. 2020, arXiv:1907.11932, algorithm 1 (TextFooler); Garg and Ramakrishnan 2020, arXiv:2004.01970, take
        candidates from a masked language model instead (BAE).
    """

    candidates: Candidates
    similarity: Similarity | None = None
    least_similarity: float = 0.8
    most_changed: float = 0.3
    keep: frozenset[str] = field(default_factory=frozenset)
    blank: str | None = None

    def __post_init__(self) -> None:
        if not (0 < self.most_changed <= 1 and 0 <= self.least_similarity <= 1):
            raise InvalidInput(
                "WordSwap expects most_changed above 0 and up to 1 and least_similarity from 0 to 1, got "
                f"{self.most_changed} and {self.least_similarity}"
            )

    def __call__(self, scores: Scores, texts: Iterable[str | Sequence[str]], labels: ArrayLike) -> "SwapResult":
        """Attack every text that the model gets right.

        Args:
            scores: The model: `(n, classes)` scores of n texts, each a tuple of words.
            texts: Strings, which are split at spaces, or sequences of words; with token ids, their names or digits.
            labels: `(n,)` integer classes.

        Raises:
            InvalidInput: A text is empty, or labels do not fit them.
            InvalidModel: The model returns no finite score for each class.
        """
        split: list[Words] = [tuple(text.split()) if isinstance(text, str) else tuple(text) for text in texts]
        classes = np.asarray(labels)
        if not split or not all(split):
            raise InvalidInput("texts expects one text or more, each of one word or more, got an empty one")
        if classes.shape != (len(split),) or classes.dtype.kind not in "iu" or classes.min() < 0:
            raise InvalidInput(f"labels expects {len(split)} integer classes, got {classes.dtype}{classes.shape}")
        model = _Model(scores)
        clean = model.scores(split)
        if classes.max() >= clean.shape[1]:
            raise InvalidInput(f"labels expects classes 0 to {clean.shape[1] - 1}, got {classes.max()}")
        return SwapResult(
            tuple(
                self._attack(_Model(scores), words, int(label), before)
                for words, label, before in zip(split, classes, clean, strict=True)
            )
        )

    def _attack(self, model: "_Model", original: Words, label: int, before: Floats) -> SwappedText:
        if int(before.argmax()) != label:
            return SwappedText(original, (), False, True, 1, 1.0)
        words, score, changed = original, float(before[label]), list[int]()
        found = False
        for position in self._ranked(model, original, label, before):
            if found or len(changed) >= max(1, int(self.most_changed * len(original))):
                break
            swapped = [_with(words, position, word) for word in self._fitting(words, position)]
            swapped, alike = self._alike(original, swapped)
            if not swapped:
                continue
            answers = model.scores(swapped)
            wrong = np.flatnonzero(answers.argmax(axis=1) != label)
            is_compared = len(wrong) and self.similarity is not None
            among = wrong if len(wrong) else np.arange(len(answers))
            best = int(among[(alike if is_compared else -answers[:, label])[among].argmax()])
            if not len(wrong) and answers[best, label] >= score:
                continue
            words, score, found = swapped[best], float(answers[best, label]), bool(len(wrong))
            changed.append(position)
        likeness = 1.0 if words == original or self.similarity is None else float(self._compared(original, [words])[0])
        return SwappedText(words, tuple(sorted(changed)), found, False, model.asked + 1, likeness)

    def _ranked(self, model: "_Model", words: Words, label: int, full: Floats) -> list[int]:
        """Return positions by how much their word matters, those that matter most first.

        Where leaving a word out changes the answer, the gain of the new class counts too: eq. 2 of the paper.
        """
        positions = [at for at, word in enumerate(words) if word.lower() not in self.keep]
        if len(words) == 1 and self.blank is None:
            return positions
        without = [
            words[:at] + words[at + 1 :] if self.blank is None else _with(words, at, self.blank) for at in positions
        ]
        if not without:
            return []
        rest = model.scores(without)
        other = rest.argmax(axis=1)
        gain = rest[np.arange(len(rest)), other] - full[other]
        importance = full[label] - rest[:, label] + np.where(other != label, gain, 0.0)
        return [positions[at] for at in np.argsort(-importance, kind="stable")]

    def _fitting(self, words: Words, position: int) -> list[str]:
        own = words[position]
        named = dict.fromkeys(self.candidates(words, position))
        return [word for word in named if word.lower() != own.lower()]

    def _alike(self, original: Words, swapped: list[Words]) -> tuple[list[Words], Floats]:
        """Return the texts that are similar enough, and how similar they are."""
        if self.similarity is None or not swapped:
            return swapped, np.ones(len(swapped))
        alike = self._compared(original, swapped)
        kept = np.flatnonzero(alike >= self.least_similarity)
        return [swapped[at] for at in kept], alike[kept]

    def _compared(self, original: Words, texts: list[Words]) -> Floats:
        assert self.similarity is not None
        alike = np.asarray(self.similarity(original, texts), np.float64)
        if alike.shape != (len(texts),) or not np.isfinite(alike).all():
            raise InvalidInput(f"similarity must return {len(texts)} finite numbers, got shape {alike.shape}")
        return alike


@dataclass(frozen=True, slots=True)
class SwapResult:
    """What became of all texts, in their order."""

    texts: tuple[SwappedText, ...]

    @property
    def clean_accuracy(self) -> float:
        """Share of texts that the model gets right."""
        return float(np.mean([not text.skipped for text in self.texts]))

    @property
    def robust_accuracy(self) -> float:
        """Share of texts that it still gets right after the search."""
        return float(np.mean([not text.skipped and not text.success for text in self.texts]))

    @property
    def changed_share(self) -> float:
        """Mean share of words that changed in adversarial texts, NaN where there is none."""
        shares = [len(text.changed) / len(text.words) for text in self.texts if text.success]
        return float(np.mean(shares)) if shares else float("nan")

    @property
    def queries(self) -> float:
        """Mean number of texts that the model was asked for, of those attacked; NaN where none was."""
        asked = [text.queries for text in self.texts if not text.skipped]
        return float(np.mean(asked)) if asked else float("nan")


@dataclass(slots=True)
class _Model:
    """The scores of a model, checked and counted."""

    call: Scores
    asked: int = 0

    def scores(self, texts: list[Words]) -> Floats:
        """Return `(n, classes)` float64 scores."""
        parts = [self._part(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
        return np.concatenate(parts)

    def _part(self, texts: list[Words]) -> Floats:
        given = self.call(texts)
        found = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, np.float64)
        if found.ndim != 2 or len(found) != len(texts) or found.shape[1] < 2 or not np.isfinite(found).all():
            raise InvalidModel(
                f"the model must return finite scores ({len(texts)}, classes) for {len(texts)} texts, got shape "
                f"{found.shape}"
            )
        self.asked += len(texts)
        return found


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The words nearest to each in a table of vectors, by cosine: counter-fitted vectors are made for it.

    Args:
        words: Of the table, in its order.
        vectors: `(words, dimensions)`, none of length 0.
        most: Neighbours of a word.
        least_cosine: Of a neighbour.

    Reference:
        Mrksic et al. 2016, arXiv:1603.00892; 50 neighbours of a cosine of 0.5 or more as Jin et al. 2020 take.
    """

    words: Sequence[str]
    vectors: NDArray[np.floating]
    most: int = 50
    least_cosine: float = 0.5
    _rows: dict[str, int] = field(init=False, repr=False)
    _unit: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        table = np.asarray(self.vectors, np.float64)
        lengths = np.linalg.norm(table, axis=1, keepdims=True) if table.ndim == 2 else np.zeros((1, 1))
        if table.ndim != 2 or len(table) != len(self.words) or not (np.isfinite(lengths) & (lengths > 0)).all():
            raise InvalidInput(
                f"Neighbours expects a finite vector above 0 for each of {len(self.words)} words, got {table.shape}"
            )
        if self.most < 1:
            raise InvalidInput(f"Neighbours expects most of 1 or more, got {self.most}")
        object.__setattr__(self, "_rows", {word: row for row, word in enumerate(self.words)})
        object.__setattr__(self, "_unit", table / lengths)

    def __call__(self, words: Words, position: int) -> list[str]:
        """Return the neighbours of a word, the nearest first; none of one that is not in the table."""
        row = self._rows.get(words[position], self._rows.get(words[position].lower()))
        if row is None:
            return []
        cosines = self._unit @ self._unit[row]
        cosines[row] = -np.inf
        nearest = np.argsort(-cosines, kind="stable")[: self.most]
        return [self.words[at] for at in nearest if cosines[at] >= self.least_cosine]

    def similarity(self, original: Words, texts: list[Words]) -> Floats:
        """Return the cosines of mean vectors: a sentence encoder for where there is none."""
        middle = self._mean(original)
        means = np.stack([self._mean(text) for text in texts])
        lengths = np.linalg.norm(means, axis=1) * np.linalg.norm(middle)
        return np.asarray(np.where(lengths > 0, means @ middle / np.where(lengths > 0, lengths, 1.0), 0.0), np.float64)

    def _mean(self, words: Words) -> Floats:
        known = [self._rows[word] for word in words if word in self._rows]
        return np.asarray(self._unit[known].sum(axis=0), np.float64)


def encoded_similarity(encode: Callable[[list[str]], ArrayLike]) -> Similarity:
    """Return the cosine of sentence vectors.

    Args:
        encode: Returns `(n, dimensions)` vectors of n texts, as `SentenceTransformer(...).encode`.
    """

    def similarity(original: Words, texts: list[Words]) -> Floats:
        vectors = np.asarray(encode([" ".join(text) for text in (original, *texts)]), np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        return np.asarray(vectors[1:] @ vectors[0] / np.maximum(lengths[1:] * lengths[0], 1e-30), np.float64)

    return similarity


def token_scores(
    model: WrappedModel, vocabulary: Mapping[str, int], *, padding: int = 0, unknown: int | None = None
) -> Scores:
    """Return the scores of texts whose words are tokens of a model that `wrap_tokens` made.

    Args:
        vocabulary: The id of each token, as a tokenizer's `get_vocab()`.
        padding: Id that fills texts up to the longest; the attention mask leaves it out, where the model takes one.
        unknown: Id of what is not in the vocabulary; None refuses it.
    """

    def scores(texts: list[Words]) -> Floats:
        other = -1 if unknown is None else unknown
        if unknown is None and (missing := {word for text in texts for word in text} - set(vocabulary)):
            raise InvalidInput(f"the vocabulary lacks {sorted(missing)[0]!r}; name the id of such: unknown=")
        ids = np.full((len(texts), max(map(len, texts))), padding, np.int64)
        for row, text in zip(ids, texts, strict=True):
            row[: len(text)] = [vocabulary.get(word, other) for word in text]
        mask = np.arange(ids.shape[1]) < np.asarray([[len(text)] for text in texts])
        tokens = model.arranged({"input_ids": ids, "attention_mask": mask})
        return np.asarray(to_numpy(model.logits(model.native(tokens))), np.float64)

    return scores


def wordnet_candidates(wordnet: object, *, most: int = 50) -> Candidates:
    """Return the synonyms of WordNet, of the meanings that are told first.

    Args:
        wordnet: A reader with a method `synsets(word)`, as `nltk.corpus.wordnet` (`pip install nltk`, then
            `nltk.download("wordnet")`).
        most: Synonyms of a word.

    Reference:
        Ren et al. 2019, "Generating natural language adversarial examples through probability weighted word saliency".
    """
    synsets = getattr(wordnet, "synsets", None)
    if not callable(synsets):
        raise InvalidInput(f"wordnet expects a reader with synsets(word), got {type(wordnet).__name__}")

    def candidates(words: Words, position: int) -> list[str]:
        return list(dict.fromkeys(_lemmas(synsets(words[position].lower()))))[:most]

    return candidates


def _lemmas(synsets: Iterable[Any]) -> Iterator[str]:  # Any: synsets of a library
    for synset in synsets:
        for name in synset.lemma_names():
            if "_" not in name:  # several words
                yield name


def _with(words: Words, position: int, word: str) -> Words:
    return (*words[:position], word, *words[position + 1 :])
