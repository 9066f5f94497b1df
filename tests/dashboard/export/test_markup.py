"""Components as plain HTML."""

import dash_mantine_components as dmc
from dash import dcc, html
from mindscope.dashboard.components.page_parts import graph
from mindscope.dashboard.export.html_report import markup


def test_text_and_attributes_are_escaped():
    part = html.Div(["<script>", html.B("a & b")], className="card", title='"quoted"')
    assert markup(part) == '<div class="card" title="&quot;quoted&quot;">&lt;script&gt;<b>a &amp; b</b></div>'


def test_links_become_text_and_controls_go():
    parts = [
        dcc.Link("decoder.0", href="/run?run=x", className="mono"),
        dcc.Link("Open it", href="/tensor", className="button"),
        dmc.Button("Mute", id="mute"),
        None,
        3,
    ]
    assert markup(parts) == '<span class="mono">decoder.0</span>3'


def test_styles_roles_and_labels_are_kept():
    part = html.Div(html.Br(), role="figure", style={"minHeight": "3px"}, **{"aria-label": "loss"})
    assert markup(part) == '<div role="figure" aria-label="loss" style="min-height: 3px"><br></div>'


def test_a_figure_is_drawn_by_the_page_and_offers_no_upload():
    drawn = markup(graph("curve", "loss", 250, {"data": [{"y": [1, 2]}], "layout": {}}))
    assert "Plotly.newPlot" in drawn
    assert 'style="height:250px' in drawn.replace(": ", ":")
    assert '"showSendToCloud": false' in drawn
    assert "plot.ly" not in drawn
