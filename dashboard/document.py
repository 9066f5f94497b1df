"""The HTML document in two halves: what can be sent before Dash is there, and what Dash fills in."""

import re
from importlib.metadata import version
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
    <script async src="{PLOTLY}?v={version("plotly")}"></script>
  </head>
  <body>
"""
REST: Final = """
    {%css%}
    {%app_entry%}
    <footer>{%config%}{%scripts%}{%renderer%}</footer>
  </body>
</html>"""

_SCRIPT: Final = re.compile(r'<script src="([^"]*)"></script>\n?')
#: Where Dash keeps a table that no page of ours has.
_UNUSED: Final = "/dash/dash_table/"
#: The library of tables; `assets/tables.js` loads it with the first one.
_LATER: Final = "/dash_ag_grid/"


def needed(scripts: str) -> str:
    """Of the scripts that Dash would load with every page those that every page needs; a table's wait for a table."""

    def write(found: re.Match[str]) -> str:
        place = found[1]
        if _LATER in place:
            return f'<script type="text/plain" data-later="{place}"></script>\n'
        return "" if _UNUSED in place else found[0]

    return _SCRIPT.sub(write, scripts)
