from collections.abc import Iterator
from pathlib import Path

import pytest

from db.store import SampleStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    opened = SampleStore.open(tmp_path / "samples.db")
    yield opened
    opened.close()
