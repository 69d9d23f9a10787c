"""What Strata's own processes report about themselves, for the Sources page and the health checks.

Two writers share a row: the process beats (from its main loop, so that a hung loop goes silent), and its
supervisor, where there is one, says when it died and why. Neither overwrites what the other one knows.
"""

from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import Engine, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from db.engine import reading, writing
from db.models import ProcessRow

ProcessState = Literal["running", "restarting", "stopped"]

BEAT_SECONDS = 5.0
SILENT_SECONDS = 4 * BEAT_SECONDS  # three lost beats may be a busy machine; four are a hung process

State = Engine  # what db.engine.open_state returns; named here so that nobody else imports SQLAlchemy for it
_TABLE = cast(Table, ProcessRow.__table__)


@dataclass(frozen=True, slots=True)
class Process:
    """One process as last reported.

    beat_ms: when it last said itself that it is alive; None when it never did.
    restarts: how often its supervisor brought it back since that supervisor started.
    detail: why it last ended, "" when it never has.
    """

    name: str
    state: ProcessState
    pid: int | None
    started_ms: int | None
    beat_ms: int | None
    restarts: int
    detail: str

    def silent(self, now_ms: int) -> bool:
        """Is it said to run, but has not beaten for SILENT_SECONDS? Counted from its start before the
        first beat."""
        if self.state != "running":
            return False
        heard_ms = max(self.beat_ms or 0, self.started_ms or 0)
        return now_ms - heard_ms > SILENT_SECONDS * 1000


def beat(state: State, name: str, *, pid: int, started_ms: int, now_ms: int) -> None:
    """This process is alive; call it every BEAT_SECONDS from the loop that does the work.

    Raises WriteRefused.
    """
    alive = {"pid": pid, "state": "running", "started_ms": started_ms, "beat_ms": now_ms}
    _upsert(state, name, {**alive, "restarts": 0, "detail": ""}, alive)


def report(
    state: State,
    name: str,
    *,
    status: ProcessState,
    pid: int | None,
    restarts: int,
    detail: str,
    now_ms: int,
) -> None:
    """The supervisor's word on a process it started (`status` "running") or saw end.

    detail: why it last ended, one sentence. Raises WriteRefused.
    """
    known = {"state": status, "pid": pid, "restarts": restarts, "detail": detail}
    if status == "running":
        known["started_ms"] = now_ms
    _upsert(state, name, {"started_ms": None, "beat_ms": None, **known}, known)


def read_processes(state: State) -> list[Process]:
    """Every process that ever reported, by name. Raises StoreUnreachable."""
    with reading(state) as connection:
        rows = connection.execute(select(_TABLE).order_by(_TABLE.c.name)).mappings().all()
    return [Process(**row) for row in rows]


def _upsert(state: State, name: str, fresh: dict[str, Any], changed: dict[str, Any]) -> None:
    dialect = postgresql if state.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(_TABLE).values(name=name, **fresh)
    with writing(state) as connection:
        connection.execute(insert.on_conflict_do_update(index_elements=["name"], set_=changed))
