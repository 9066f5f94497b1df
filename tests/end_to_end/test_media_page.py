"""A person looks at images and sounds in a real Chromium while the training logs them, on a screen and on a phone."""

from collections.abc import Iterator

import pytest
from mindscope.dashboard import start_in_thread
from mindscope.storage import open_store

from .browsing import watched_page
from .drawing import Drawing
from .test_browser import wait_for

pytestmark = pytest.mark.browser

#: The pixel in the middle of the first image, as the browser has decoded it; none before it has.
PIXEL = """(() => {
  const image = document.querySelector("[alt^='samples, 1 of 3']");
  if (!image || !image.complete || !image.naturalWidth) return null;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.getContext("2d").getImageData(4, 4, 1, 1).data[0];
})()"""


@pytest.fixture
def drawing(tmp_path) -> Iterator[Drawing]:
    drawing = Drawing(tmp_path)
    drawing.make(0, 1)
    yield drawing
    drawing.end()


def test_images_and_sounds_follow_the_training_until_the_slider_is_moved(browser, drawing):
    with open_store(drawing.store) as store:
        wait_for(lambda: store.runs() and store.events(store.runs()[0].id, kind="media"))
    with start_in_thread(drawing.store) as server, watched_page(browser, server.url.partition("?")[0], "dark") as seen:
        seen.open("/media", ".media-image")
        seen.wait(f"{PIXEL} === 40")
        drawing.make(2)
        seen.wait(f"{PIXEL} === 80")
        assert "newest of 3 steps" in seen.page.inner_text("#media-place")
        seen.page.focus("#media-slider [role=slider]")
        seen.page.keyboard.press("Home")
        seen.wait(f"{PIXEL} === 0")
        seen.wait("location.search.includes('step=0')")
        drawing.make(3)
        seen.wait("document.getElementById('media-place').textContent === 'step 0 · 1 of 4 steps'")
        assert seen.page.evaluate(PIXEL) == 0
        seen.page.reload()
        seen.wait(f"{PIXEL} === 0")
        seen.page.focus("#media-slider [role=slider]")
        seen.page.keyboard.press("End")
        seen.wait(f"{PIXEL} === 120")
        seen.wait("!location.search.includes('step=')")
        seen.page.evaluate("document.querySelector('audio').load()")
        seen.page.evaluate("document.querySelector('audio').preload = 'auto'")
        seen.wait("Math.abs(document.querySelector('audio').duration - 1) < 0.01")
        assert seen.nameless() == []
        seen.page.set_viewport_size({"width": 390, "height": 844})
        seen.wait("document.documentElement.scrollWidth <= 390")
        seen.wait("document.querySelector('[alt^=maps]').getBoundingClientRect().right <= 390")
