import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.waste import CAUSES, CHUNK_CELLS, GpuStates, below, split

NAN = math.nan
MINUTE = 60_000
NAMES = [field.name for field in fields(GpuStates)]


def of_one_step(**states):
    """Cause -> share of the single step of a single GPU, those that have any."""
    found = split(GpuStates(**{name: np.array([[value]]) for name, value in states.items()}), 1, 1, MINUTE)
    return {cause: share for cause, share in zip(CAUSES, found.shares(), strict=True) if share}


def test_a_gpu_nobody_has_is_unallocated_whatever_else_it_does():
    assert of_one_step(allocated=0.0, idle=1.0, throttled=1.0, failed=NAN) == {"unallocated": 1.0}


def test_a_dead_process_comes_before_idle():
    assert of_one_step(allocated=1.0, held_by_dead_process=1.0, idle=1.0) == {"held by a dead process": 1.0}


def test_lost_work_is_lost_whole_before_it_was_slow():
    assert of_one_step(redone=1.0, throttled=1.0, low_tensor=1.0) == {"redone after a restart": 1.0}
    assert of_one_step(failed=1.0, throttled=1.0) == {"failed or aborted requests": 1.0}


def test_shares_are_taken_of_what_is_left():
    found = of_one_step(allocated=0.5, idle=0.5, throttled=0.2)
    assert found == pytest.approx(
        {"unallocated": 0.5, "allocated but idle": 0.25, "throttled": 0.05, "useful": 0.2}
    )


def test_what_is_missing_is_unknown_from_there_on():
    assert of_one_step(allocated=0.75, idle=NAN, throttled=1.0) == {"unallocated": 0.25, "unknown": 0.75}
    assert of_one_step(allocated=NAN, idle=1.0) == {"unknown": 1.0}


def test_what_has_no_source_is_named_and_takes_nothing():
    found = split(GpuStates(allocated=np.ones((2, 3)), idle=np.zeros((2, 3))), 2, 3, MINUTE)
    assert found.unassessed == (
        "held by a dead process",
        "redone after a restart",
        "failed or aborted requests",
        "throttled",
        "low tensor activity",
    )
    assert found.shares()[CAUSES.index("useful")] == 1.0
    assert "unallocated" in split(GpuStates(idle=np.zeros((2, 3))), 2, 3, MINUTE).unassessed


def test_hours_by_gpu_and_in_all():
    allocated = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    found = split(GpuStates(allocated=allocated), 3, 2, 30 * MINUTE)
    assert found.gpu_hours()[0].tolist() == [0.0, 0.5, 1.0]
    assert found.gpu_hours()[-1].tolist() == [1.0, 0.5, 0.0]
    assert found.total_hours()[[0, -1]].tolist() == [1.5, 1.5]


def test_a_slice_opens_its_gpus_worst_first():
    allocated = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    found = split(GpuStates(allocated=allocated), 4, 2, MINUTE)
    assert found.worst_gpus("unallocated", 10).tolist() == [2, 1, 3]
    assert found.worst_gpus("unallocated", 1).tolist() == [2]
    assert found.worst_gpus("throttled", 10).tolist() == []


def test_one_state_may_stand_for_all_gpus_or_all_steps():
    found = split(GpuStates(failed=np.array([0.5, 0.0]), throttled=np.array([[0.0], [1.0]])), 2, 2, MINUTE)
    assert found.milliseconds[CAUSES.index("failed or aborted requests")].tolist() == [30_000, 30_000]
    assert found.milliseconds[CAUSES.index("throttled")].tolist() == [0, 90_000]


def test_ratios_beyond_their_range_are_cut_off():
    assert of_one_step(allocated=1.0000001, idle=-0.2, throttled=math.inf) == {"throttled": 1.0}


def test_no_gpus_and_no_steps():
    found = split(GpuStates(allocated=np.ones((0, 5))), 0, 5, MINUTE)
    assert found.milliseconds.shape == (len(CAUSES), 0)
    assert np.isnan(found.shares()).all()
    assert split(GpuStates(), 3, 0, MINUTE).total_hours().tolist() == [0.0] * len(CAUSES)


def test_a_state_of_the_wrong_shape_is_named():
    with pytest.raises(ValueError, match="state throttled is 3x2, not 2 GPUs x 3 steps"):
        split(GpuStates(throttled=np.ones((3, 2))), 2, 3, MINUTE)


def test_low_activity_keeps_what_is_missing():
    found = below(np.array([0.1, 0.5, NAN]), 0.5)
    assert found[:2].tolist() == [1.0, 0.0]
    assert np.isnan(found[2])


values = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, NAN, 1.5, -0.5]))


@st.composite
def fleets(draw):
    gpus, steps = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    cells = st.lists(st.lists(values, min_size=steps, max_size=steps), min_size=gpus, max_size=gpus)
    present = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return gpus, steps, {name: draw(cells) for name in present}, draw(st.integers(1, 900_000))


@given(fleets())
def test_every_millisecond_has_exactly_one_cause(fleet):
    gpus, steps, states, step_ms = fleet
    arrays = {name: np.array(cells) for name, cells in states.items()}
    found = split(GpuStates(**arrays), gpus, steps, step_ms)
    assert (found.milliseconds >= 0).all()
    assert found.milliseconds.sum(axis=0).tolist() == [steps * step_ms] * gpus
    assert found.shares().sum() == pytest.approx(1.0, abs=1e-12)
    assert found.milliseconds.tolist() == by_hand(gpus, steps, states, step_ms)


def by_hand(gpus, steps, states, step_ms):
    """Cell by cell, in plain numbers."""
    spent = {cause: [0] * gpus for cause in CAUSES}
    for gpu in range(gpus):
        for step in range(steps):
            left = step_ms
            for name, cause in zip(NAMES, CAUSES, strict=False):
                if name not in states:
                    continue
                value = states[name][gpu][step]
                if math.isnan(value):
                    spent["unknown"][gpu] += left
                    left = 0
                    break
                share = min(max(value, 0.0), 1.0)
                taken = round(left * (1.0 - share if cause == "unallocated" else share))
                spent[cause][gpu] += taken
                left -= taken
            spent["useful"][gpu] += left
    return [spent[cause] for cause in CAUSES]


def test_a_large_fleet_is_worked_off_in_parts():
    steps = CHUNK_CELLS // 3
    row = np.zeros(steps)
    row[: steps // 2] = 1.0
    found = split(GpuStates(idle=np.broadcast_to(row, (7, steps))), 7, steps, 1)
    assert found.milliseconds[CAUSES.index("allocated but idle")].tolist() == [steps // 2] * 7
    assert found.milliseconds.sum(axis=0).tolist() == [steps] * 7
