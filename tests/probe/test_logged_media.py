"""Images and sounds are kept as they were given, within bounds; a mistake is one sentence and nothing is raised."""

import io
import warnings

import mindscope as ms
import numpy as np
import pytest
from mindscope.probe.configuration.sections import MediaSettings
from mindscope.probe.logged_media import MediaLog, is_kept
from mindscope.storage import open_store

GRAY = np.arange(30, dtype=np.uint8).reshape(5, 6)
COLOUR = np.arange(90, dtype=np.uint8).reshape(5, 6, 3)


def images(value, log=None, place=(0, 0), channels=None):
    return (log or MediaLog(MediaSettings())).images("x", value, place, "", channels)


def pixels(value, **options):
    events, mistakes = images(value, **options)
    assert mistakes == []
    return [event.attachment.content for event in events]


def test_every_layout_of_an_image_gives_the_same_pixels():
    (expected,) = pixels(COLOUR)
    np.testing.assert_array_equal(expected, COLOUR)
    for same in (COLOUR.transpose(2, 0, 1), [COLOUR], COLOUR[None], COLOUR.transpose(2, 0, 1)[None], COLOUR / 255):
        (found,) = pixels(same)
        np.testing.assert_array_equal(found, COLOUR)
    for same in (GRAY, GRAY[:, :, None], GRAY[None], GRAY.astype(np.int64), GRAY.tolist()):
        (found,) = pixels(same)
        np.testing.assert_array_equal(found, GRAY[:, :, None])
    (mask,) = pixels(GRAY > 5)
    np.testing.assert_array_equal(mask[:, :, 0], (GRAY > 5) * 255)


def test_an_array_that_changes_after_it_was_logged_leaves_the_image_as_it_was():
    array = COLOUR.copy()
    (found,) = pixels(array)
    array[:] = 0
    np.testing.assert_array_equal(found, COLOUR)


def test_tensors_and_pillow_images_are_images():
    torch, pillow = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    ambiguous = torch.rand(3, 5, 4, requires_grad=True)
    (found,) = pixels(ambiguous)
    assert found.shape == (5, 4, 3)
    (last,) = pixels(ambiguous, channels="last")
    assert last.shape == (3, 5, 4)
    exact = (torch.arange(12).reshape(1, 3, 4) / 16).to(torch.bfloat16)
    (half,) = pixels(exact)
    np.testing.assert_array_equal(half[:, :, 0], np.rint(np.arange(12).reshape(3, 4) / 16 * 255))
    (image,) = pixels(pillow.fromarray(COLOUR))
    np.testing.assert_array_equal(image, COLOUR)
    assert pixels(pillow.new("P", (6, 5)))[0].shape == (5, 6, 3)


def test_what_cannot_be_drawn_as_it_is_is_noted():
    odd = np.array([[0.0, np.nan, 2.0], [0.5, -np.inf, 1.0]])
    ((event,), mistakes) = images(odd)
    assert mistakes == []
    assert event.data["note"] == "17% of the values outside 0 to 1: clipped; 2 values not finite: magenta"
    drawn = event.attachment.content
    assert [drawn[0, 1].tolist(), drawn[1, 1].tolist()] == [[255, 0, 255]] * 2
    assert [drawn[0, 0].tolist(), drawn[0, 2].tolist(), drawn[1, 0].tolist()] == [[0] * 3, [255] * 3, [128] * 3]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((5, 6, 7)), r"expects shape .* got \(5, 6, 7\)"),
        (np.zeros(7), r"expects shape .* got \(7,\)"),
        (np.zeros((0, 3)), "must have pixels"),
        (np.zeros((2, 2), complex), "must hold real numbers"),
        ("a picture", "must hold real numbers"),
        (object(), "must hold real numbers"),
        ([np.zeros((2, 2)), "a picture"], "must hold real numbers"),
        (np.zeros((5000, 4000), np.uint8), "at most 16,000,000 are kept"),
    ],
)
def test_what_is_no_image_is_told_in_one_sentence(value, words):
    events, (mistake,) = images(value)
    assert len(events) == (1 if isinstance(value, list) else 0)
    assert mistake.startswith("image 'x' ")
    assert mistake.endswith("; it is left out")
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(mistake)


def test_sounds_are_kept_and_what_is_none_is_told():
    log = MediaLog(MediaSettings())
    wave = np.array([0.0, 1.0, -1.0, 2.0, np.nan])
    ((event,), mistakes) = log.audio("beep", wave, (0, 0), 8000, "one")
    assert mistakes == []
    assert event.attachment.content[:, 0].tolist() == [0, 32767, -32767, 32767, 0]
    assert event.data["note"] == "20% of the samples outside -1 to 1: clipped; 1 samples not finite: silent"
    assert (event.data["seconds"], event.data["caption"]) == (5 / 8000, "one")
    ((stereo,), _) = log.audio("two", np.zeros((2, 100), np.int16), (0, 0), 8000, "")
    assert stereo.attachment.content.shape == (100, 2)
    for value, rate in ((np.zeros((9, 9, 9)), 8000), (np.zeros(5, np.int64), 8000), (np.zeros(5), 8), (wave, "8000")):
        events, (mistake,) = log.audio("beep", value, (0, 0), rate, "")
        assert events == []
        assert mistake.startswith("sound 'beep' ")


def test_the_number_of_steps_grows_with_the_logarithm_of_the_training():
    kept = [count for count in range(1000) if is_kept(count, 10)]
    assert kept[:15] == [*range(10), 10, 12, 14, 16, 18]
    assert len(kept) < 10 + 5 * 7
    log = MediaLog(MediaSettings(steps=10))
    assert [step for step in range(1000) if images(GRAY, log, (step, 0))[0]] == kept


def test_a_step_and_a_run_have_their_bounds():
    log = MediaLog(MediaSettings(per_step=2, total=90))
    events, (mistake,) = images([GRAY] * 3, log)
    assert [event.data["index"] for event in events] == [0, 1]
    assert "more than 2 files at one step" in mistake
    assert len(images(GRAY, log, (1, 0))[0]) == 1
    events, (mistake,) = images(GRAY, log, (2, 0))
    assert events == []
    assert "would take more than 90 bytes" in mistake


def test_a_training_logs_to_the_step_that_has_just_ended_and_is_told_of_mistakes(tmp_path):
    torch, pillow = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = ms.watch(model, optimizer, store=str(tmp_path))
    for step in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 2)).sum().backward()
        monitor.log_image("before", GRAY)
        optimizer.step()
        monitor.log_image("after", COLOUR + np.uint8(step), caption="words")
    with pytest.warns(UserWarning, match=r"image 'x' expects shape") as caught:
        monitor.log_image("x", np.zeros(3))
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="the name of a sound must be"):
        monitor.log_audio("", np.zeros(3), 8000)
    monitor.close()
    with pytest.warns(UserWarning, match="is closed: late"):
        monitor.log_image("late", GRAY)
    with warnings.catch_warnings(), open_store(tmp_path) as store:
        warnings.simplefilter("error")
        run = store.find_run("latest").id
        events = store.events(run, kind="media")
        assert [(event.step, event.data["name"]) for event in events] == [
            (step, name) for step in range(3) for name in ("before", "after")
        ]
        file = store.attachment(run, str(events[-1].data["digest"]))
        with pillow.open(io.BytesIO(file)) as image:
            np.testing.assert_array_equal(np.asarray(image), COLOUR + np.uint8(2))
        assert store.verify(run) == ()
