"""The fleet as a matrix and as rows."""

import math

import numpy as np
import pytest

from app.summaries.fleet import fleet, heat, newest_readings, owner_text
from db.catalog.read import Reading
from db.catalog.read_range import SignalSteps

NAN = float("nan")
TIMES = np.array([0, 15_000], dtype=np.int64)


def row(node: str, gpu: int, *values: float) -> SignalSteps:
    return SignalSteps((("gpu", str(gpu)), ("node", node)), np.array(values))


def reading(value: float, **labels: str) -> Reading:
    return Reading(tuple(sorted(labels.items())), value)


def test_rows_are_in_natural_order():
    found = heat(TIMES, [row("n10", 0, 1, 1), row("n9", 10, 2, 2), row("n9", 9, 3, 3)], "neither")
    assert found.names == ("n9 GPU 9", "n9 GPU 10", "n10 GPU 0")
    assert found.values[:, 0].tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    ("good", "word", "value"), [("low", "highest", 5), ("high", "lowest", 1), ("neither", "mean", 3)]
)
def test_neighbours_become_one_row_by_what_matters(good, word, value):
    found = heat(TIMES, [row("n", 0, 1, NAN), row("n", 1, 5, NAN)], good, max_rows=1)
    assert (found.by, found.together, found.gpus) == (word, 2, 2)
    assert found.names == ("n GPU 0 to n GPU 1",)
    assert found.values[0, 0] == value
    assert math.isnan(found.values[0, 1])


def test_a_gap_of_one_neighbour_is_not_one_of_the_row():
    found = heat(TIMES, [row("n", 0, NAN, 1), row("n", 1, 4, 3)], "neither", max_rows=1)
    assert found.values.tolist() == [[4.0, 2.0]]


def test_ten_thousand_gpus_fit():
    found = heat(TIMES, [row(f"n{n // 8}", n % 8, 1, 1) for n in range(10_000)], "neither")
    assert found.values.shape == (400, 2)
    assert found.gpus == 10_000


def test_a_fleet_without_gpus_is_empty():
    assert heat(TIMES, [], "low").values.shape == (0, 2)
    assert fleet({}) == []


def test_a_gpu_has_what_is_known_of_it():
    of = {"node": "n1", "gpu": "0", "uuid": "GPU-a"}
    [one] = fleet(
        {
            "gpu_utilization": [reading(0.5, **of)],
            "gpu_power_watts": [reading(NAN, **of)],
            "gpu_throttle_reason": [reading(1, **of, cause="power"), reading(0, **of, cause="thermal")],
            "gpu_xid": [reading(79, **of)],
        }
    )
    assert one.values == {"gpu_utilization": 0.5}
    assert list(one.throttled) == ["power"]
    assert math.isnan(one.throttled["power"])
    assert one.xid is not None
    assert one.xid.code == 79
    assert one.xid.severity == "critical"


def test_a_share_of_throttling_replaces_the_mere_reason():
    of = {"node": "n1", "gpu": "0", "uuid": "GPU-a", "cause": "power"}
    [one] = fleet({"gpu_throttle_reason": [reading(1, **of)], "gpu_throttled_ratio": [reading(0.1, **of)]})
    assert one.throttled == {"power": 0.1}


def test_an_owner_that_knows_the_uuid_alone_finds_its_gpu():
    gpu = reading(0.5, node="n1", gpu="0", uuid="GPU-a")
    owner = reading(1, node="other", uuid="GPU-a", owner_kind="pod", namespace="ml", pod="train-0")
    [one] = fleet({"gpu_utilization": [gpu], "gpu_owner": [owner]})
    assert one.node == "n1"
    assert one.owners == ["pod ml/train-0"]


def test_two_owners_of_a_shared_gpu_are_both_named():
    of = {"node": "n1", "gpu": "0", "uuid": "GPU-a"}
    readings = [reading(1, **of, pod=name, namespace="ml") for name in ("a", "b")]
    [one] = fleet({"gpu_utilization": [reading(0.5, **of)], "gpu_owner": readings})
    assert one.owners == ["pod ml/a", "pod ml/b"]


def test_owners_in_words():
    assert owner_text({"owner_kind": "slurm", "job_id": "4711", "user": "kim"}) == "job 4711 of kim"
    assert owner_text({"owner_kind": "process"}) == "process"


def test_the_newest_event_is_found_wherever_it_was():
    series = [row("n", 0, 31, NAN), row("n", 1, NAN, NAN), row("n", 2, 31, 79)]
    assert [one.value for one in newest_readings(series)] == [31, 79]
