"""A Dash page with one curve and nothing else: what a browser and Dash take before anybody's page is drawn."""

import argparse

import waitress
from dash import Dash, dcc

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", type=int, required=True)
app = Dash("bare", serve_locally=True, compress=False)
app.layout = dcc.Graph(id="live-curve", figure={"data": [{"type": "scatter", "x": [1, 2, 3], "y": [1, 3, 2]}]})
waitress.serve(app.server, host="127.0.0.1", port=parser.parse_args().port)
