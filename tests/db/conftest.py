"""What the tests of `db` share: where the state may be, and a samples file as its users open it."""

from pathlib import Path

import pytest

from db.maintenance import Maintainer
from db.store import SampleStore
from tests.postgres_server import postgres, state_location

__all__ = ["maintainer", "postgres", "state_location", "store"]


@pytest.fixture
def store(tmp_path: Path):
    opened = SampleStore.open(tmp_path / "samples.db")
    yield opened
    opened.close()


@pytest.fixture
def maintainer(tmp_path: Path):
    opened = Maintainer.open(tmp_path / "samples.db")
    yield opened
    opened.close()
