"""Words are swapped greedily, within what candidates and similarity allow, until a classifier changes its mind."""

import itertools

import numpy as np
import pytest
from mindscope.armour import InvalidInput, InvalidModel
from mindscope.armour.words import Neighbours, WordSwap, encoded_similarity, token_scores, wordnet_candidates

WEIGHTS = {
    "great": 2.0, "good": 1.0, "decent": 0.4, "film": 0.0, "movie": -0.3, "the": 0.0, "poor": -1.5, "bad": -2.0,
    "weak": -0.6, "plot": 0.1, "story": 0.3, "very": 0.2,
}  # fmt: skip
SYNONYMS = {"great": ["good", "decent"], "good": ["decent", "great"], "film": ["movie"], "plot": ["story"],
            "bad": ["poor", "weak"], "very": ["the"]}  # fmt: skip


def synonyms(words, position):
    return SYNONYMS.get(words[position].lower(), [])


def scores(texts):
    """Probabilities of two classes by a sum of weights."""
    totals = np.array([sum(WEIGHTS[word.lower()] for word in text) for text in texts])
    return np.stack([1 / (1 + np.exp(totals)), 1 / (1 + np.exp(-totals))], axis=1)


def label(text):
    return int(scores([tuple(text.split())])[0].argmax())


def test_the_word_that_matters_most_changes_first():
    threshold = lambda texts: scores(texts) + np.array([0.35, 0.0])  # noqa: E731  class 0 wins below a sum of some 0.7
    (text,) = WordSwap(synonyms)(threshold, ["the film great plot"], [1]).texts
    assert text.words == ("the", "film", "decent", "plot")
    assert (text.success, text.changed, text.skipped) == (True, (2,), False)
    assert text.queries == 1 + 4 + 2  # the text, without each word, and two candidates


def reachable(text, most):
    """Whether any choice of so many swaps changes the answer: every one is tried."""
    words, own = text.split(), label(text)
    options = [[word, *synonyms(words, at)] for at, word in enumerate(words)]
    return any(
        sum(a != b for a, b in zip(words, choice, strict=True)) <= most and scores([choice])[0].argmax() != own
        for choice in itertools.product(*options)
    )


@pytest.mark.parametrize("most", [0.2, 0.5, 1.0])
def test_a_success_is_one_that_trying_everything_finds_too(most):
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(list(WEIGHTS), 5)) for _ in range(60)]
    labels = [label(text) for text in texts]
    result = WordSwap(synonyms, most_changed=most)(scores, texts, labels)
    allowed = max(1, int(most * 5))
    for text, original in zip(result.texts, texts, strict=True):
        assert len(text.changed) <= allowed
        assert (scores([text.words])[0].argmax() != label(original)) == text.success
        assert text.success <= reachable(original, allowed)
    # The weights add up, so with every word free to change the greedy search finds all that there is.
    if most == 1.0:
        assert [text.success for text in result.texts] == [reachable(original, 5) for original in texts]
    assert result.clean_accuracy == 1.0
    assert 0 < result.robust_accuracy < 1


def test_words_to_keep_and_similarity_are_obeyed():
    text, own = "the film great", 1
    assert WordSwap(synonyms, keep=frozenset({"great"}))(scores, [text], [own]).texts[0].words == (
        "the",
        "movie",
        "great",
    )
    alike = lambda original, texts: [0.9 if "good" in text else 0.5 for text in texts]  # noqa: E731
    strict = lambda texts: scores(texts) + np.array([0.6, 0.0])  # noqa: E731  "good" and "decent" change the answer
    (free,) = WordSwap(synonyms)(strict, [text], [own]).texts
    (tied,) = WordSwap(synonyms, similarity=alike)(strict, [text], [own]).texts
    (none,) = WordSwap(synonyms, similarity=alike, least_similarity=0.95)(strict, [text], [own]).texts
    assert (free.words[2], tied.words[2], none.words[2]) == ("decent", "good", "great")
    assert (tied.similarity, none.success, none.changed) == (0.9, False, ())


def test_texts_that_the_model_gets_wrong_are_not_attacked():
    result = WordSwap(synonyms)(scores, ["bad film", "great film"], [1, 1])
    assert [text.skipped for text in result.texts] == [True, False]
    assert result.clean_accuracy == 0.5
    assert np.isnan(WordSwap(synonyms)(scores, ["bad film"], [1]).changed_share)


def test_neighbours_are_the_nearest_by_cosine():
    words = ["one", "two", "three", "far"]
    vectors = np.array([[1, 0], [3, 0.3], [1, 1], [-1, 0]], np.float32)
    near = Neighbours(words, vectors, most=2, least_cosine=0.5)
    assert near(("one",), 0) == ["two", "three"]
    assert near(("One",), 0) == ["two", "three"]
    assert near(("unseen",), 0) == []
    assert Neighbours(words, vectors, least_cosine=0.9)(("one",), 0) == ["two"]
    alike = near.similarity(("one", "two"), [("one", "two"), ("one", "far"), ("unseen",)])
    np.testing.assert_allclose(alike, [1.0, 0.0, 0.0], atol=1e-12)
    encoded = encoded_similarity(lambda texts: [[len(text), 1.0] for text in texts])
    np.testing.assert_allclose(encoded(("ab",), [("cd",), ("abcd",)]), [1.0, 9 / np.sqrt(5 * 17)])


class Synset:
    def __init__(self, *names):
        self.names = names

    def lemma_names(self):
        return list(self.names)


class Reader:
    def synsets(self, word):
        return [Synset("great", "big_deal", "grand"), Synset("grand", "vast")] if word == "great" else []


def test_synonyms_come_from_a_reader_of_wordnet():
    candidates = wordnet_candidates(Reader(), most=3)
    assert candidates(("Great",), 0) == ["great", "grand", "vast"]
    (text,) = WordSwap(candidates)(
        lambda texts: [[1.0, 0.5] if "vast" in t else [0.4, 0.5] for t in texts], ["great"], [1]
    ).texts
    assert text.words == ("vast",)
    with pytest.raises(InvalidInput, match=r"wordnet expects a reader with synsets\(word\), got int"):
        wordnet_candidates(3)


def test_a_model_of_token_ids_is_asked_for_texts_of_its_vocabulary():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from mindscope.armour import wrap_tokens

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(len(WEIGHTS) + 1, 1)
            with torch.no_grad():
                self.words.weight.copy_(torch.tensor([9.0, *WEIGHTS.values()])[:, None])  # 9 is what padding is worth

        def forward(self, input_ids, attention_mask):
            total = (self.words(input_ids)[..., 0] * attention_mask).sum(dim=1)
            return torch.stack([-total / 2, total / 2], dim=1)

    vocabulary = {word: number for number, word in enumerate(WEIGHTS, 1)}
    asked = token_scores(wrap_tokens(Sum().eval()), vocabulary)
    texts = ["the film great", "very good plot the movie", "bad"]
    labels = [label(text) for text in texts]
    expected, found = (WordSwap(synonyms, most_changed=1.0)(call, texts, labels).texts for call in (scores, asked))
    assert [text.words for text in found] == [text.words for text in expected]
    with pytest.raises(InvalidInput, match="the vocabulary lacks 'unseen'; name the id of such: unknown="):
        WordSwap(synonyms)(asked, ["unseen film"], [1])


@pytest.mark.parametrize(
    ("texts", "labels", "call", "error", "message"),
    [
        ([], [], scores, InvalidInput, "texts expects one text or more"),
        (["film", ""], [0, 1], scores, InvalidInput, "got an empty one"),
        (["film"], [0, 1], scores, InvalidInput, r"labels expects 1 integer classes, got int64\(2,\)"),
        (["film"], [2], scores, InvalidInput, "labels expects classes 0 to 1, got 2"),
        (["film"], [0], lambda texts: np.zeros(len(texts)), InvalidModel, r"finite scores \(1, classes\) for 1 texts"),
        (["film"], [0], lambda texts: np.full((len(texts), 2), np.nan), InvalidModel, "must return finite scores"),
    ],
    ids=["none", "empty", "lengths", "class", "one axis", "nan"],
)
def test_what_does_not_fit_is_named(texts, labels, call, error, message):
    with pytest.raises(error, match=message):
        WordSwap(synonyms)(call, texts, labels)


def test_options_are_checked():
    with pytest.raises(InvalidInput, match="WordSwap expects most_changed above 0 and up to 1"):
        WordSwap(synonyms, most_changed=0.0)
    with pytest.raises(InvalidInput, match="a finite vector above 0 for each of 2 words"):
        Neighbours(["a", "b"], np.array([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(InvalidInput, match="similarity must return 2 finite numbers"):
        WordSwap(synonyms, similarity=lambda original, texts: [1.0])(scores, ["great film"], [1])
