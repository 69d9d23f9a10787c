"""Some of what `make chaos` does 200 times: kill -9 of those who write, load and maintain."""

from pathlib import Path

import pytest

from tests.chaos.rounds import kill_again_and_again


@pytest.mark.slow
def test_killed_processes_lose_nothing_that_they_acknowledged(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=6, seed=20)
