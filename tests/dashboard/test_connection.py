"""An open page notices that the server is gone."""

from pathlib import Path

import mindscope.dashboard
from mindscope.dashboard import create_app
from mindscope.dashboard.components.shell import ShellIds, shell

SCRIPT = (Path(mindscope.dashboard.__file__).parent / "assets" / "connection.js").read_text(encoding="utf-8")


def test_every_page_carries_an_empty_status_that_the_script_fills():
    (banner,) = [one for one in shell("runs/")._traverse() if getattr(one, "id", None) == ShellIds.connection]
    assert banner.role == "status"
    assert not getattr(banner, "children", None)
    assert f'getElementById("{ShellIds.connection}")' in SCRIPT


def test_the_script_is_served_and_asks_an_address_that_answers(recorded_store):
    client = create_app(recorded_store).server.test_client()
    with client.get("/assets/connection.js") as script:
        assert script.status_code == 200
    assert 'fetch("/healthz"' in SCRIPT
    assert client.get("/healthz").status_code == 200
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 403
