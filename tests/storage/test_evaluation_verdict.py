"""What a stored evaluation says of a model, from its outcomes alone."""

import math

from mindscope.storage import Outcome
from mindscope.storage.evaluation_verdict import evaluation_verdict

SIGN = {"name": "flat-loss", "value": 0.4, "explanation": "the loss does not grow"}


def worst(epsilon, **details):
    return Outcome("worst-case", "linf", epsilon, 0.5, 10, details={"kind": "worst-case", **details})


def test_an_evaluation_without_a_doubt_is_credible():
    found = evaluation_verdict([worst(0.1, masking=[], verdict=[]), worst(0.0, masking=[], verdict=[])])
    assert (found.is_trusted, found.words, found.doubts) == (True, "credible", ())
    assert [outcome.epsilon for outcome in found.worst_case] == [0.0, 0.1]


def test_doubts_are_told_once_with_their_reasons_and_remarks():
    details = {"masking": ["flat-loss"], "verdict": [SIGN], "warnings": ["budget"], "notes": ["mode"]}
    found = evaluation_verdict([worst(0.0, **details), worst(0.1, **details)])
    assert (found.is_trusted, found.words) == (False, "do not trust these numbers")
    assert [(doubt.name, doubt.value, doubt.explanation) for doubt in found.doubts] == [tuple(SIGN.values())]
    assert found.remarks == ("budget", "mode")


def test_names_alone_are_doubts_too():
    (doubt,) = evaluation_verdict([worst(0.0, masking=["flat-loss"]), worst(0.1, masking=["flat-loss"])]).doubts
    assert doubt.name == "flat-loss"
    assert math.isnan(doubt.value)


def test_an_evaluation_that_was_cut_off_is_not_judged():
    found = evaluation_verdict([worst(0.0), worst(0.1)])
    assert (found.is_trusted, found.words) == (None, "not judged")
    assert evaluation_verdict([Outcome("drift ks", "", 0.0, math.nan, 10)]) is None
