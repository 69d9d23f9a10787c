"""Jobs from `squeue --json` (Slurm 21.08 and later), where a job's name cannot imitate Slurm's own lines.

The layout moves with every release: a number is 5, or {"set": true, "infinite": false, "number": 5} since
23.02; a state is "RUNNING", or ["RUNNING"] since 23.11; a job's nodes moved within job_resources.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from collectors.slurm_records import ACTIVE_STATES, Held, Job
from collectors.slurm_text import absent, gpus, hosts, label, tasks
from collectors.types import CollectFailed

ARGUMENTS: Final = ("--all", "--json")

_USED: Final = frozenset(
    {
        "jobs", "errors", "description", "error", "set", "infinite", "number", "job_id", "user_name",
        "user_id", "account", "partition", "qos", "name", "job_state", "state_reason", "node_count", "nodes",
        "array_job_id", "array_task_id", "array_task_string", "het_job_id", "het_job_offset", "start_time",
        "submit_time", "time_limit", "gres_detail", "job_resources", "list",
    }
)  # fmt: skip


def jobs(output: bytes) -> list[Job]:
    """The active jobs. Raises CollectFailed for what is no such document, and for the errors it tells of."""
    try:
        # Kept field by field: the whole of a 100 MB document as objects would take 1 GB.
        document = json.loads(output, object_pairs_hook=_used)
    except (ValueError, RecursionError) as error:
        raise CollectFailed(f"squeue --json prints what is no JSON: {label(str(error), 120)}") from error
    if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
        raise CollectFailed("squeue --json prints JSON without a list of jobs")
    # With a dead controller 22.05 prints an empty list, exit status 0, and the error in the document.
    for told in document.get("errors") or ():
        texts = [told.get("description"), told.get("error")] if isinstance(told, dict) else [told]
        reason = ", ".join(label(text, 120) for text in texts if isinstance(text, str) and text)
        raise CollectFailed(f"squeue --json: {reason or 'an error without a text'}; see scontrol ping")
    return [job for record in document["jobs"] if isinstance(record, dict) for job in _job(record)]


def _used(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if key in _USED}


def _job(record: dict[str, Any]) -> Iterator[Job]:
    state = _state(record.get("job_state"))
    number = _number(record.get("job_id"))
    if number is None or state not in ACTIVE_STATES:
        return
    array, task = _number(record.get("array_job_id")), _number(record.get("array_task_id"))
    het, offset = _number(record.get("het_job_id")), _number(record.get("het_job_offset"))
    minutes = _number(record.get("time_limit"))
    yield Job(
        id=int(number),
        user=label(_text(record, "user_name")) or _whole(_number(record.get("user_id"))),
        account=label(_text(record, "account")),
        partition=label(_text(record, "partition")),
        qos=label(_text(record, "qos")),
        name=label(_text(record, "name")),
        state=state,
        reason=label(_text(record, "state_reason")),
        nodes=int(_number(record.get("node_count")) or 0),
        tasks=tasks(_text(record, "array_task_string")) if state == "pending" else 1,
        array=(int(array), int(task)) if array and task is not None else None,
        het=(int(het), int(offset or 0)) if het else None,
        started=_number(record.get("start_time")) or None,
        submitted=_number(record.get("submit_time")) or None,
        limit_seconds=60.0 * minutes if minutes else None,
        held=_held(record),
    )


def _held(record: dict[str, Any]) -> tuple[Held, ...]:
    """`gres_detail` has one entry a node, in the order of the nodes that the job was given."""
    details = record.get("gres_detail")
    if not isinstance(details, list) or not details:
        return ()
    resources = record.get("job_resources")
    nodes = resources.get("nodes") if isinstance(resources, dict) else None
    if isinstance(nodes, dict):
        nodes = nodes.get("list")
    names = hosts(nodes if isinstance(nodes, str) and absent(nodes) else _text(record, "nodes"))
    if len(names) != len(details):
        return ()  # which entry is which node's cannot be told
    pairs = zip(names, details, strict=True)
    return tuple(Held(name, one) for name, text in pairs if isinstance(text, str) for one in gpus(text))


def _state(value: Any) -> str:
    words = [
        word.lower() for word in (value if isinstance(value, list) else [value]) if isinstance(word, str)
    ]
    # A flag beside the base state says more: ["RUNNING", "COMPLETING"], ["RUNNING", "CONFIGURING"].
    return next((word for word in words if word in ("completing", "configuring")), words[0] if words else "")


def _number(value: Any) -> float | None:
    """None for null, for what is not set and for infinity."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2**53:
        return None
    return value


def _whole(value: float | None) -> str:
    return "" if value is None else str(int(value))


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""
