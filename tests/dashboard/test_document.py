"""Which scripts the first answer names."""

import re

from mindscope.dashboard import create_app


def test_only_what_every_page_needs_is_loaded_with_every_page(recorded_store):
    document = create_app(recorded_store).server.test_client().get("/findings").text
    loaded = re.findall(r'<script[^>]* src="([^"]*)"', document)
    for needed_scripts in (
        "react-dom",
        "dash_renderer",
        "dash_core_components",
        "dash_html_components",
        "dash_mantine",
    ):
        assert any(needed_scripts in script for script in loaded), needed_scripts
    assert not any("dash_ag_grid" in script or "dash_table" in script for script in loaded)


def test_the_library_of_tables_is_named_for_the_first_table_and_is_there(recorded_store):
    client = create_app(recorded_store).server.test_client()
    (later,) = re.findall(r'data-later="([^"]*)"', client.get("/").text)
    with client.get(later) as script:
        assert script.status_code == 200
        assert b"dash_ag_grid" in script.data
