import numpy as np

from app.analysis.grid import time_grid
from app.summaries.gpus import summarise_gpus
from app.summaries.history import CHARTS, MAX_LINES, draw_lines, highest, offered
from db.labels import labels_from
from db.records import Series

END = 1_000_000_060_000
GRID = time_grid(END, 60_000, 12)


def gpus(count):
    return summarise_gpus(
        [
            Series(
                labels_from(
                    {"instance": f"box-{n // 8}", "gpu": str(n % 8), "UUID": str(n)}, "DCGM_FI_DEV_GPU_UTIL"
                ),
                np.array([END - 5_000]),
                np.array([float(n)]),
            )
            for n in range(count)
        ],
        GRID,
    )


def test_of_many_lines_the_highest_now_are_drawn():
    devices = gpus(64)
    choice = highest(CHARTS["gpu"], devices)
    history = draw_lines(CHARTS["gpu"], choice, devices, GRID)
    assert len(history.lines) == MAX_LINES
    assert history.total == 64
    assert [line.name for line in history.lines[:2]] == ["box-7 GPU 7", "box-7 GPU 6"]
    assert choice.instances == {"box-7", "box-6"}


def test_only_charts_with_something_to_show_are_offered():
    assert [chart.key for chart in offered([], gpus(1), [])] == ["gpu"]
    assert offered([], [], []) == []


def test_every_chart_has_its_own_name_and_a_known_unit():
    from app.charts.series import AXES

    assert len({chart.title for chart in CHARTS.values()}) == len(CHARTS)
    assert {chart.unit for chart in CHARTS.values()} <= set(AXES)
