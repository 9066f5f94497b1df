"""Adversarial examples side by side: the input, what was changed as strong as it can be shown, and the result."""

from collections.abc import Sequence
from typing import Final

from dash import html

from ..data.examples import Example
from ..figures.bitmap import bitmap, magnified
from ..words import number

_PIXELS: Final = 112


def gallery(examples: Sequence[Example]) -> html.Div:
    """One row of three pictures for each example, with the classes and how sure the model was of them."""
    return html.Div([_example(one) for one in examples], className="gallery")


def _example(one: Example) -> html.Figure:
    change, times = magnified(one.change)
    largest = 0.5 / times
    pictures = (
        (one.clean, "as it is", _said(one.clean_class, one.clean_confidence)),
        (change, f"the change × {number(times, 3)}", f"at most {number(largest, 3)} of the range"),
        (one.adversarial, "attacked", _said(one.adversarial_class, one.adversarial_confidence)),
    )
    title = f"Sample {one.sample}, labelled {one.label}, moved by {number(one.distance)}"
    row = [
        html.Div(
            [
                html.Img(src=bitmap(pixels), width=_PIXELS, height=_PIXELS, alt=f"sample {one.sample} {what}: {words}"),
                html.Div(what, className="muted"),
                html.Div(words),
            ],
            className="shown",
        )
        for pixels, what, words in pictures
    ]
    return html.Figure([html.Figcaption(title, className="part-title"), html.Div(row, className="shown-row")])


def _said(found: int, confidence: float) -> str:
    return f"class {found}" if confidence != confidence else f"class {found}, {confidence:.1%} sure"
