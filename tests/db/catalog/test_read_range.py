"""A signal over steps is at each step what it is when it is read there alone."""

import math
from pathlib import Path

import numpy as np
import pytest

from db.catalog.load import load_catalog
from db.catalog.read import read_signal
from db.catalog.read_range import read_steps
from db.catalog.signal import Resolved
from tests.db.catalog.pages import FIXTURES, names_of, recorded, stored

SIGNS = {-1: "below", 0: "", 1: "above"}
PATHS = sorted((FIXTURES / "vllm-live").glob("*.prom"))


@pytest.mark.parametrize(
    "name", ["ttft_p95", "e2e_p50", "queue_time_p99", "itl_p95", "ttft_mean", "tokens_out_per_second"]
)
def test_every_step_is_the_reading_there(tmp_path: Path, name: str):
    with stored(tmp_path / "samples.db", [recorded(PATHS, {"job": "vllm", "instance": "a:8000"})]) as store:
        resolved = load_catalog().resolve(name, names_of(store))
        assert isinstance(resolved, Resolved)
        end_ms = int(PATHS[-1].stem)
        times, [series] = read_steps(store, resolved, end_ms - 300_000, end_ms + 60_000, 15_000)
        assert len(times) == len(series.values) == 25
        seen = set()
        for number, at_ms in enumerate(times.tolist()):
            readings = read_signal(store, resolved, at_ms)
            value = readings[0].value if readings else math.nan
            assert series.values[number] == pytest.approx(value, nan_ok=True)
            if readings and series.bounds is not None and series.observations is not None:
                assert SIGNS[series.bounds[number]] == readings[0].bound
                assert series.observations[number] == pytest.approx(readings[0].observations, nan_ok=True)
                seen.add(readings[0].bound)
        assert np.isfinite(series.values).sum() > 10
        if name == "queue_time_p99":
            assert "below" in seen
