"""Captured pages whose licence keeps them out of this repository, read where they lie beside the checkout."""

from pathlib import Path

import pytest

from collectors.exposition import PageParser
from collectors.local_probe import recognise
from tests.collectors.pages import format_of_file

SHARED = Path(__file__).parents[3] / "shared" / "fixtures"


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs the shared fixtures beside the checkout: {name}")
    return path


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("tgi/from-source-definitions.prom", "tgi"),
        ("llamacpp/current-names.prom", "llamacpp"),
        ("llamacpp/old-names-with-kv.prom", "llamacpp"),
        ("dcgm/l40s-idle-default-counters.prom", "dcgm"),
        ("dcgm/l40s-idle-4.9.0-names.TRANSLATED.prom", "dcgm"),
    ],
)
def test_the_page_is_read_and_recognised(name: str, service: str) -> None:
    path = shared(name)
    page = PageParser().parse(path.read_bytes(), format_of_file(path))
    assert len(page.values) > 5
    found = recognise(path.read_bytes())
    assert found is not None
    assert found.name == service
