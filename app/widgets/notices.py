"""Nothing to show has three reasons, and each is its own sentence: empty, stale, unreachable."""

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app.widgets.numbers import bytes_text, clock_time, counted, lapse
from app.widgets.process_band import COLLECTORS, TITLES, process_story, process_title
from app.widgets.status import NO_DATA, STALE, Sign, process_sign, short
from db.errors import StoreError
from db.held_samples import Held
from db.processes import Process
from db.promql.errors import QueryError


def notice(sign: Sign, sentence: str, details: Sequence[str] = ()) -> None:
    """A quiet box: sign and sentence are ours, the details may be anybody's text."""
    with st.container(border=True, gap="xxsmall"):
        st.markdown(f"{sign.markdown} · {sentence}")
        for detail in details:
            st.text(short(detail, 500))


def empty(processes: Sequence[Process], now_ms: int) -> None:
    """The store answers and holds nothing."""
    notice(
        Sign("○", "Empty", "gray"),
        "nothing has been collected yet. `strata up` fills this page within seconds; "
        "`strata collect` starts the collectors alone.",
        process_lines(processes, now_ms),
    )


def stale(newest_ms: int, processes: Sequence[Process], now_ms: int) -> None:
    """The store answers, but nothing arrives any more."""
    silence = lapse(now_ms - newest_ms)
    notice(
        STALE,
        f"no new data for {silence}: the collectors process has probably stopped. "
        "What is shown below is the last that is known.",
        process_lines(processes, now_ms),
    )


def unreachable(error: StoreError) -> None:
    """The store cannot be opened or read."""
    notice(
        Sign("■", "Unreachable", "red"),
        "the samples file cannot be read, so nothing can be shown. This page keeps trying.",
        [str(error)],
    )


def unanswered(error: QueryError) -> None:
    """The engine, or the store, did not answer a query."""
    notice(Sign("■", "Not answered", "red"), "a query failed. This page keeps trying.", [str(error)])


def unread_signals(problems: Sequence[str]) -> None:
    """Some signals cannot be read; the rest of the page stands."""
    notice(Sign("■", "Not answered", "red"), "some signals cannot be read and are left out.", problems)


def held_samples(held: Held, now_ms: int, zone: tzinfo) -> None:
    """The store refuses samples: they wait in the collector process's memory."""
    sentence = (
        f"since {clock_time(held.since_ms, zone)} ({lapse(now_ms - held.since_ms)}) samples are kept in "
        f"memory alone, {bytes_text(held.bytes)} of at most {bytes_text(held.bound_bytes)}. They are stored "
        "as soon as what is said below is mended; beyond that bound, or when the collector process ends, "
        "they are lost."
    )
    if held.dropped:
        sentence += f" {counted(held.dropped, 'scrape')} had to be dropped already."
    notice(Sign("■", "Not stored", "red"), sentence, [held.reason])


def unreadable_processes(error: StoreError) -> None:
    """The state cannot be read; the samples may be."""
    notice(
        Sign("■", "Unreachable", "red"),
        "the state cannot be read, so Strata's own processes are not shown. This page keeps trying.",
        [str(error)],
    )


def process_lines(processes: Sequence[Process], now_ms: int) -> list[str]:
    """One plain line for each of Strata's own processes, and for a collector process never heard of."""
    lines = [
        f"{process_title(process)}: {process_sign(process, now_ms).plain} · {process_story(process, now_ms)}"
        for process in processes
    ]
    if all(process.name != COLLECTORS for process in processes):
        lines.insert(0, f"{TITLES[COLLECTORS]}: {NO_DATA.shape} never started on this data folder")
    return lines
