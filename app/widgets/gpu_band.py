"""The GPUs: four tiles each, or totals and a table when there are many."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.summaries.gpus import Gpu
from app.widgets.age import freshness_sign
from app.widgets.numbers import ago, bytes_text, exact, ratio_text, unit_text
from app.widgets.status import short
from app.widgets.tiles import MAX_TILES, Tile, draw_card, draw_tiles

TILES_PER_GPU = 4
CARD_WIDTH = 520


def draw_gpus(gpus: Sequence[Gpu], now_ms: int, *, no_driver: bool) -> None:
    """no_driver: this machine has said that it cannot have any; a calm sentence, not an alarm."""
    st.header("GPUs", anchor=False)
    if not gpus:
        st.caption("No NVIDIA driver on this machine." if no_driver else "No GPU is reported yet.")
        return
    if len(gpus) * TILES_PER_GPU <= MAX_TILES:
        with st.grid("auto", min_column_width=CARD_WIDTH, gap="xsmall") as grid:
            for gpu in gpus:
                with grid.cell():
                    age = f"newest sample {ago(gpu.newest_ms, now_ms)}"
                    draw_card(freshness_sign(gpu.newest_ms, now_ms), gpu_name(gpu), age, gpu_tiles(gpu))
        return
    with st.container(border=True):
        draw_tiles(fleet_tiles(gpus))
    st.dataframe(
        _table(gpus, now_ms),
        hide_index=True,
        column_config=_COLUMNS,
        placeholder="",
        height=_HEIGHT,
        alt=f"{len(gpus)} GPUs with utilisation, memory, power and temperature",
    )


def gpu_name(gpu: Gpu) -> str:
    """Untrusted text."""
    mig = f" MIG {gpu.mig}" if gpu.mig else ""
    return " · ".join(part for part in (f"GPU {gpu.index}{mig}", gpu.model, gpu.host) if part)


def gpu_tiles(gpu: Gpu) -> list[Tile]:
    used, total = gpu.memory_used_bytes.value, gpu.memory_total_bytes
    share = f" · {ratio_text(used / total)}" if used is not None and total else ""
    return [
        Tile(
            "Utilisation",
            ratio_text(gpu.utilisation_ratio.value),
            exact(gpu.utilisation_ratio.value, "of time with a kernel running"),
            "not reported" if gpu.utilisation_ratio.value is None else "kernel running",
            gpu.utilisation_ratio.trend,
        ),
        Tile(
            "Memory used",
            bytes_text(used),
            exact(used, "bytes used"),
            f"of {bytes_text(total)}{share}",
            gpu.memory_used_bytes.trend,
        ),
        Tile(
            "Power",
            unit_text(gpu.power_watts.value, "W"),
            exact(gpu.power_watts.value, "watts"),
            "board draw",
            gpu.power_watts.trend,
        ),
        Tile(
            "Temperature",
            unit_text(gpu.temperature_celsius.value, "°C"),
            exact(gpu.temperature_celsius.value, "degrees Celsius"),
            "GPU core",
            gpu.temperature_celsius.trend,
        ),
    ]


def fleet_tiles(gpus: Sequence[Gpu]) -> list[Tile]:
    """What a fleet comes to: mean utilisation, memory, power, the hottest."""
    busy = [gpu.utilisation_ratio.value for gpu in gpus if gpu.utilisation_ratio.value is not None]
    used = [gpu.memory_used_bytes.value for gpu in gpus if gpu.memory_used_bytes.value is not None]
    total = sum(gpu.memory_total_bytes or 0.0 for gpu in gpus)
    power = [gpu.power_watts.value for gpu in gpus if gpu.power_watts.value is not None]
    heat = [gpu.temperature_celsius.value for gpu in gpus if gpu.temperature_celsius.value is not None]
    mean = sum(busy) / len(busy) if busy else None
    idle = sum(1 for value in busy if value < IDLE_RATIO)
    return [
        Tile("Mean utilisation", ratio_text(mean), exact(mean, "mean"), f"{len(gpus)} GPUs · {idle} idle"),
        Tile(
            "Memory used",
            bytes_text(sum(used) if used else None),
            exact(sum(used) if used else None, "bytes used"),
            f"of {bytes_text(total or None)}",
        ),
        Tile(
            "Power",
            unit_text(sum(power) / 1000 if power else None, "kW", 2),
            exact(sum(power) if power else None, "watts"),
            f"{len(power)} GPUs report it",
        ),
        Tile(
            "Hottest",
            unit_text(max(heat, default=None), "°C"),
            exact(max(heat, default=None), "degrees Celsius"),
            f"{len(heat)} GPUs report it",
        ),
    ]


# Below this a GPU does no work worth its power; drivers report a percent or two of housekeeping.
IDLE_RATIO = 0.05
_HEIGHT = 420


def _table(gpus: Sequence[Gpu], now_ms: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "state": [freshness_sign(gpu.newest_ms, now_ms).plain for gpu in gpus],
            "host": [short(gpu.host) for gpu in gpus],
            "gpu": [short(f"{gpu.index} {gpu.mig}".strip()) for gpu in gpus],
            "utilisation": [_scaled(gpu.utilisation_ratio.value, 100) for gpu in gpus],
            "recent": [np.nan_to_num(gpu.utilisation_ratio.trend).round(3).tolist() for gpu in gpus],
            "memory": [_share(gpu) for gpu in gpus],
            "memory_used": [bytes_text(gpu.memory_used_bytes.value) for gpu in gpus],
            "power": [gpu.power_watts.value for gpu in gpus],
            "temperature": [gpu.temperature_celsius.value for gpu in gpus],
            "model": [short(gpu.model) for gpu in gpus],
            "newest": [ago(gpu.newest_ms, now_ms) for gpu in gpus],
        }
    )


def _share(gpu: Gpu) -> float | None:
    used, total = gpu.memory_used_bytes.value, gpu.memory_total_bytes
    return None if used is None or not total else round(used / total * 100, 1)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else round(value * factor, 1)


_COLUMNS = {
    "state": st.column_config.TextColumn("State", width="small"),
    "host": st.column_config.TextColumn("Host"),
    "gpu": st.column_config.TextColumn("GPU", width="small"),
    "utilisation": st.column_config.ProgressColumn(
        "Utilisation", format="%.0f %%", min_value=0, max_value=100
    ),
    "recent": st.column_config.AreaChartColumn("Recent", y_min=0, y_max=1, width="small"),
    "memory": st.column_config.ProgressColumn("Memory", format="%.0f %%", min_value=0, max_value=100),
    "memory_used": st.column_config.TextColumn("Memory used", alignment="right"),
    "power": st.column_config.NumberColumn("Power", format="%.0f W"),
    "temperature": st.column_config.NumberColumn("Temperature", format="%.0f °C"),
    "model": st.column_config.TextColumn("Model"),
    "newest": st.column_config.TextColumn("Newest sample", alignment="right"),
}
