"""The site fixture, for every page test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.views.pages import Site
from tests.views.pages import site as opened_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with opened_site(tmp_path) as opened:
        yield opened
