"""Looks at exchanged answers are judged together: chance, knowledge that is of no use, and knowledge."""

import pytest
from mindscope.insight.indicators.exchanged_answers import ExchangedAnswers
from mindscope.storage import Event


def _looks(scores, *, samples=64, loss=1.0, spread=0.01, first=100):
    data = {"loss": loss, "spread": spread, "samples": samples}
    return [
        Event("exchange", step, data=data | {"exchanged": loss + score * spread})
        for step, score in enumerate(scores, first)
    ]


@pytest.mark.parametrize(
    ("scores", "samples", "knows_nothing"),
    [
        ((0.3, -1.0, 0.5, 0.2), 64, True),
        ((0.3, -1.0, 0.5), 64, False),  # too few looks
        ((1.2, 1.4, 0.3, 0.5), 64, True),  # worth less than a percent of the loss
        ((6.0, 5.0, 7.0, 6.0), 64, False),
        ((2.1, 2.2, 2.0, 2.4), 64, False),  # weak, but no chance
        ((0.9, 0.8, 1.0, 0.9), 8, False),  # too few samples to tell
    ],
)
def test_what_looks_tell(scores, samples, knows_nothing):
    answers = ExchangedAnswers()
    for event in _looks(scores, samples=samples, spread=0.05 if samples == 8 else 0.005):
        answers.learn([event], None)
    assert answers.knows_nothing is knows_nothing


def test_the_newest_look_alone_may_show_that_something_was_learned():
    answers = ExchangedAnswers()
    for event in _looks((-2.0, -3.0, -2.0, -1.0, 0.0, 9.3), spread=0.002):
        answers.learn([event], None)
    assert not answers.knows_nothing


def test_knowledge_of_little_use_is_some_where_the_loss_falls():
    answers = ExchangedAnswers()
    for step, loss in enumerate((2.2, 2.1, 1.9, 1.5)):
        answers.learn(_looks((1.6,), loss=loss, spread=0.004, first=100 + step), None)
    assert answers.score > 3.0
    assert not answers.knows_nothing


def test_nothing_is_said_of_the_first_steps():
    answers = ExchangedAnswers()
    for event in _looks((0.3, -1.0, 0.5, 0.2), first=50):
        answers.learn([event], None)
    assert not answers.knows_nothing


def test_late_knowledge_takes_back_what_was_said():
    answers = ExchangedAnswers()
    for event in _looks((0.1, 0.2, -0.3, 0.1, 3.5)):
        answers.learn([event], None)
    assert not answers.learns_after_all
    answers.learn(_looks((4.0,)), None)
    assert answers.learns_after_all


def test_looks_at_the_loss_of_another_learner_do_not_count():
    answers = ExchangedAnswers()
    assert not answers.learn(_looks((5.0,), loss=2.0), 1.0)
    assert answers.learn(_looks((5.0,), loss=2.0), 2.0)


def test_answers_that_belong_to_their_samples_have_been_learned():
    answers = ExchangedAnswers()
    for event in _looks((6.0, 5.0)):
        answers.learn([event], None)
    assert answers.has_learned
