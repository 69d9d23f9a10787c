"""What targets lack of what their exporters could say, and the setting that adds it."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.summaries.coverage import TargetCoverage, by_exporter
from app.widgets.numbers import counted
from app.widgets.status import short

_NAMED = 3
_ROWS_AT_ONCE = 12
_HEIGHT = 640
# A setting is a sentence with a line of a file in it. Streamlit breaks lines in rows of twice its own height.
_THREE_LINES = 72


def draw_coverage(rows: Sequence[TargetCoverage]) -> None:
    lacking = [row for row in rows if row.coverage.gaps]
    if not rows:
        return
    st.header("Coverage", anchor=False)
    if not lacking:
        st.caption("Every target says all that its exporter can.")
        return
    frame = coverage_frame(lacking)
    st.caption("Exporters can say more than these targets do. Each row names the setting that adds it.")
    st.dataframe(
        frame,
        hide_index=True,
        column_config=_COLUMNS,
        height="content" if len(frame) <= _ROWS_AT_ONCE else _HEIGHT,
        row_height=_THREE_LINES,
        alt=f"{len(frame)} gaps in what targets report, with the exporter's setting that fills each",
    )


def coverage_frame(rows: Sequence[TargetCoverage]) -> pd.DataFrame:
    """A row for each gap. Cells are plain text: names come from pages."""
    gaps = [(exporter, lack) for exporter in by_exporter(rows) for lack in exporter.lacks]
    return pd.DataFrame(
        {
            "missing": [short(", ".join(lack.titles), 1000) for _, lack in gaps],
            "mend": [short(lack.mend, 1000) for _, lack in gaps],
            "targets": [targets_text(lack.targets) for _, lack in gaps],
            "exporter": [f"{exporter.title}: {exporter.share}" for exporter, _ in gaps],
        }
    )


def targets_text(targets: Sequence[tuple[str, str]]) -> str:
    """ "dcgm a:9400, b:9400 and 998 targets more"."""
    named = short(", ".join(f"{job} {instance}" for job, instance in targets[:_NAMED]))
    more = len(targets) - _NAMED
    return f"{named} and {counted(more, 'target')} more" if more > 0 else named


_COLUMNS = {
    "missing": st.column_config.TextColumn("Missing", width="medium"),
    "mend": st.column_config.TextColumn("What adds it", width=640),
    "targets": st.column_config.TextColumn("Targets", width="medium"),
    "exporter": st.column_config.TextColumn("Exporter: signals", width="medium"),
}
