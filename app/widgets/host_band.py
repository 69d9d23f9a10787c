"""The hosts: six tiles each, or a table when there are many."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.summaries.hosts import Host
from app.summaries.reading import Reading
from app.widgets.age import freshness_sign
from app.widgets.numbers import ago, byte_rate_text, bytes_text, count_text, exact, ratio_text
from app.widgets.status import SOURCE_SIGNS, Sign, short
from app.widgets.tiles import MAX_TILES, Tile, draw_card

TILES_PER_HOST = 6


def draw_hosts(hosts: Sequence[Host], now_ms: int) -> None:
    st.header("Hosts", anchor=False)
    if not hosts:
        st.caption("No host reports yet: the host collector or a node_exporter target brings one.")
    elif len(hosts) * TILES_PER_HOST <= MAX_TILES:
        for host in hosts:
            age = f"newest sample {ago(host.newest_ms, now_ms)}"
            draw_card(_sign(host, now_ms), _name(host), age, host_tiles(host))
    else:
        st.dataframe(
            _table(hosts, now_ms),
            hide_index=True,
            column_config=_COLUMNS,
            placeholder="",
            key="hosts",
            alt=f"{len(hosts)} hosts with processor, memory, disk and network use",
        )


def host_tiles(host: Host) -> list[Tile]:
    """Processor, memory, disk, fullest filesystem, network, pressure."""
    total = host.memory_total_bytes
    used = host.memory_used_bytes.value
    share = f" · {ratio_text(used / total)}" if used is not None and total else ""
    load = "" if host.load1 is None else f" · load {host.load1:.2f}"
    fullest = host.fullest
    worst, pressure = _worst(host)
    return [
        Tile(
            "CPU busy",
            ratio_text(host.cpu_busy_ratio.value),
            exact(host.cpu_busy_ratio.value, "of all processors' time"),
            f"{host.cores} cores{load}",
            host.cpu_busy_ratio.trend,
        ),
        Tile(
            "Memory used",
            bytes_text(used),
            exact(used, "bytes used"),
            f"of {bytes_text(total)}{share}",
            host.memory_used_bytes.trend,
        ),
        Tile(
            "Network in",
            byte_rate_text(host.network_in_bytes.value),
            exact(host.network_in_bytes.value, "bytes per second"),
            f"out {byte_rate_text(host.network_out_bytes.value)}",
            host.network_in_bytes.trend,
        ),
        Tile(
            "Disk read",
            byte_rate_text(host.disk_read_bytes.value),
            exact(host.disk_read_bytes.value, "bytes per second"),
            f"written {byte_rate_text(host.disk_written_bytes.value)}",
            host.disk_read_bytes.trend,
        ),
        Tile(
            "Pressure",
            ratio_text(pressure.value if pressure else None),
            "share of time in which some task waited: "
            + ", ".join(f"{name} {ratio_text(item.value)}" for name, item in host.pressure_ratio.items()),
            f"highest: {worst}" if worst else "not reported",
            pressure.trend if pressure else None,
        ),
        Tile(
            "Fullest filesystem",
            ratio_text(fullest.used_ratio if fullest else None),
            exact(fullest.available_bytes if fullest else None, "bytes available"),
            f"{bytes_text(fullest.available_bytes)} free of {bytes_text(fullest.size_bytes)}"
            if fullest
            else "not reported",
        ),
    ]


def _name(host: Host) -> str:
    fullest = f" · fullest filesystem {host.fullest.mountpoint}" if host.fullest else ""
    name = f"{host.nodename} · " if host.nodename not in ("", host.instance) else ""
    return f"{name}{host.instance} · {host.job}{fullest}"


def _sign(host: Host, now_ms: int) -> Sign:
    return SOURCE_SIGNS["down"] if host.ended else freshness_sign(host.newest_ms, now_ms)


def _worst(host: Host) -> tuple[str, Reading | None]:
    known = [(name, item) for name, item in host.pressure_ratio.items() if item.value is not None]
    if not known:
        return "", None
    return max(known, key=lambda pair: pair[1].value or 0.0)


def _table(hosts: Sequence[Host], now_ms: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "state": [_sign(host, now_ms).plain for host in hosts],
            "host": [short(host.instance) for host in hosts],
            "job": [short(host.job) for host in hosts],
            "cpu": [_percent(host.cpu_busy_ratio.value) for host in hosts],
            "cpu_trend": [np.nan_to_num(host.cpu_busy_ratio.trend).round(4).tolist() for host in hosts],
            "memory": [_percent(_share(host)) for host in hosts],
            "memory_used": [bytes_text(host.memory_used_bytes.value) for host in hosts],
            "disk": [_percent(host.fullest.used_ratio if host.fullest else None) for host in hosts],
            "network_in": [byte_rate_text(host.network_in_bytes.value) for host in hosts],
            "network_out": [byte_rate_text(host.network_out_bytes.value) for host in hosts],
            "load": [count_text(host.load1) for host in hosts],
            "newest": [ago(host.newest_ms, now_ms) for host in hosts],
        }
    )


def _share(host: Host) -> float | None:
    used, total = host.memory_used_bytes.value, host.memory_total_bytes
    return used / total if used is not None and total else None


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio * 100, 1)


_COLUMNS = {
    "state": st.column_config.TextColumn("State", width="small"),
    "host": st.column_config.TextColumn("Host"),
    "job": st.column_config.TextColumn("Job", width="small"),
    "cpu": st.column_config.ProgressColumn("CPU busy", format="%.1f %%", min_value=0, max_value=100),
    "cpu_trend": st.column_config.AreaChartColumn("CPU, recent", y_min=0, y_max=1, width="small"),
    "memory": st.column_config.ProgressColumn("Memory", format="%.1f %%", min_value=0, max_value=100),
    "memory_used": st.column_config.TextColumn("Memory used", alignment="right"),
    "disk": st.column_config.ProgressColumn("Fullest disk", format="%.1f %%", min_value=0, max_value=100),
    "network_in": st.column_config.TextColumn("Network in", alignment="right"),
    "network_out": st.column_config.TextColumn("Network out", alignment="right"),
    "load": st.column_config.TextColumn("Load", alignment="right", width="small"),
    "newest": st.column_config.TextColumn("Newest sample", alignment="right"),
}
