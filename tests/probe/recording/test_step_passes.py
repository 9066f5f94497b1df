"""How many batches each step takes, and which steps took more."""

from mindscope.probe.recording.step_passes import StepPasses


class Steps:
    """Steps that the test counts."""

    now = 0


def take(passes: StepPasses, count: int) -> None:
    for _ in range(count):
        passes.note("batch")


def test_the_step_that_took_one_more_is_kept_with_the_line() -> None:
    passes = StepPasses(lambda: Steps.now)
    for Steps.now in range(20):
        take(passes, 3 if Steps.now == 7 else 2)
    (use,) = passes.uses()
    assert (use.kind, use.file, use.usual, use.more) == ("batch", __file__, 2, ((7, 3),))


def test_the_step_in_progress_may_have_taken_more() -> None:
    passes = StepPasses(lambda: Steps.now)
    for Steps.now in range(10):
        take(passes, 2 if Steps.now == 9 else 1)
    assert passes.uses()[0].more == ((9, 2),)


def test_steps_that_are_few_or_unlike_have_no_usual_number() -> None:
    few, unlike = StepPasses(lambda: Steps.now), StepPasses(lambda: Steps.now)
    for Steps.now in range(12):
        take(unlike, 1 + Steps.now % 2)
        if Steps.now < 4:
            take(few, 1)
    assert [(use.usual, use.more) for passes in (few, unlike) for use in passes.uses()] == [(0, ()), (0, ())]
