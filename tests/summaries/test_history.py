from dataclasses import replace

import numpy as np

from app.analysis.grid import time_grid
from app.summaries.gpus import read_gpus
from app.summaries.history import CHARTS, MAX_LINES, draw_lines, highest, offered
from db.labels import labels_from
from db.records import Series
from tests.summaries.readers import reader, write

END = 1_000_000_060_000
GRID = time_grid(END, 60_000, 12)


def gpus(store, count):
    write(
        store,
        *(
            Series(
                labels_from(
                    {"instance": f"box-{n // 8}", "gpu": str(n % 8), "UUID": str(n)}, "DCGM_FI_DEV_GPU_UTIL"
                ),
                np.array([END - 5_000]),
                np.array([float(n)]),
            )
            for n in range(count)
        ),
    )
    return read_gpus(reader(store, GRID))


def test_of_many_lines_the_highest_now_are_drawn(store):
    devices = gpus(store, 64)
    choice = highest(CHARTS["gpu"], devices)
    history = draw_lines(CHARTS["gpu"], choice, devices, GRID)
    assert len(history.lines) == MAX_LINES
    assert history.total == 64
    assert [line.name for line in history.lines[:2]] == ["box-7 GPU 7", "box-7 GPU 6"]
    assert choice.instances == {"box-7", "box-6"}


def test_a_chart_of_what_no_target_is_known_of_is_not_narrowed(store):
    devices = gpus(store, 2)
    unknown = replace(devices[0], instance="")
    assert highest(CHARTS["gpu"], [unknown, devices[1]]).instances == frozenset()


def test_only_charts_with_something_to_show_are_offered(store):
    assert [chart.key for chart in offered([], gpus(store, 1), [])] == ["gpu"]
    assert offered([], [], []) == []


def test_every_chart_has_its_own_name_and_a_known_unit():
    from app.charts.series import AXES

    assert len({chart.title for chart in CHARTS.values()}) == len(CHARTS)
    assert {chart.unit for chart in CHARTS.values()} <= set(AXES)
