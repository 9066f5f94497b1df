"""The HTML document in two halves: what can be sent before Dash is there, and what Dash fills in."""

from typing import Final

#: Where the browser fetches plotly.js; Dash serves it there as well.
PLOTLY: Final = "/_dash-component-suites/plotly/package_data/plotly.min.js"
#: The one script inside of the document; every other comes from a file, as the policy for scripts demands.
RENDERER: Final = "var renderer = new DashRenderer();"

#: Plotly is the longest script and Dash asks for no picture before it has it, so the browser begins with it.
HEAD: Final = f"""<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="UTF-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>mindscope</title>
    <link rel="icon" type="image/svg+xml" href="/assets/brand.svg">
    <script async src="{PLOTLY}"></script>
  </head>
  <body>
"""
REST: Final = """
    {%css%}
    {%app_entry%}
    <footer>{%config%}{%scripts%}{%renderer%}</footer>
  </body>
</html>"""
