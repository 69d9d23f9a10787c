"""Jobs from text, for a Slurm without JSON: `squeue` says who, `scontrol -d show job` says which GPUs.

Anybody may put line ends into a job's name, and Slurm prints them: a name can hold whole records of
`scontrol show job`. So everything but the GPUs is asked of squeue with a mark between the fields that nobody
can know beforehand; from scontrol only the GPUs are taken, after such names are cut out, of jobs that squeue
lists on that node. A job that is still listed twice is imitated by some other text (a comment, a folder): its
GPUs are left out rather than guessed.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectors.slurm_records import ACTIVE_STATES, Held, Job
from collectors.slurm_text import absent, gpus, hosts, label, limit_seconds, records, tasks
from collectors.types import CollectFailed

# squeue(1): job, job as users write it, user, account, partition, QOS, state, reason, nodes, how many, start,
# submission, time limit; the name last.
_FIELDS: Final = "AiuaPqTrNDSVlj"
DETAILS: Final = ("--details", "show", "job")

_RECORD: Final = re.compile(r"^JobId=(\d+)(?=\s)", re.MULTILINE)
# GRES_IDX until 19.05.
_GPUS_OF_NODES: Final = re.compile(r"^\s+Nodes=(\S+) .*?\bGRES(?:_IDX)?=(\S+)", re.MULTILINE)
# What comes after it are the owner's texts.
_AFTER_GPUS: Final = re.compile(r"^\s+MinCPUsNode=", re.MULTILINE)
_MAX_NAMES_CUT: Final = 100
_PART_OF: Final = re.compile(r"(\d+)([_+])(\d+)")


@dataclass(frozen=True, slots=True)
class Listed:
    """A job as squeue knows it, without its GPUs; the names of its nodes; its name as it was given."""

    job: Job
    nodes: frozenset[str]
    raw_name: str


def arguments(mark: str) -> tuple[str, ...]:
    """For squeue. `mark`: letters and digits that nobody else can know, new for each reading."""
    states = "--states=PENDING,RUNNING,SUSPENDED,COMPLETING,CONFIGURING"
    fields = _before_field(mark).join(f"%{one}" for one in _FIELDS)
    return ("--all", "--noheader", states, f"--format={_before_record(mark)}{fields}")


def jobs(output: bytes, mark: str) -> list[Listed]:
    """The active jobs. Raises CollectFailed where a record has other fields than were asked for."""
    _, *printed = output.decode(errors="replace").split(_before_record(mark))
    found = []
    for record in printed:
        texts = record.split(_before_field(mark))
        if len(texts) != len(_FIELDS) or not texts[0].isdecimal():
            raise CollectFailed(f"squeue prints a job as {label(record)!r}, not as it was asked to")
        fields = dict(zip(_FIELDS, (absent(text) for text in texts), strict=True))
        if fields["T"].lower() in ACTIVE_STATES:
            name = texts[-1].removesuffix("\n")
            found.append(Listed(_job(fields), frozenset(hosts(fields["N"])), name))
    return found


def with_gpus(listed: Sequence[Listed], output: bytes) -> list[Job]:
    """The jobs with the GPUs that `scontrol --details show job` says they hold."""
    text = _without_long_names(output.decode(errors="replace"), listed)
    found = list(records(text, _RECORD))
    times = Counter(number for number, _ in found)
    single = {number: record for number, record in found if times[number] == 1}
    return [replace(one.job, held=_held(one, single.get(str(one.job.id), ""))) for one in listed]


def _without_long_names(text: str, listed: Sequence[Listed]) -> str:
    for one in [one for one in listed if "\n" in one.raw_name][:_MAX_NAMES_CUT]:
        # With its own id before it: a name may also be a piece of another job's record.
        own = rf"^(JobId={one.job.id} [^\n]*?JobName=){re.escape(one.raw_name)}$"
        text = re.sub(own, r"\1", text, flags=re.MULTILINE)
    return text


def _held(listed: Listed, record: str) -> tuple[Held, ...]:
    return tuple(
        Held(node, one)
        for line in _GPUS_OF_NODES.finditer(_AFTER_GPUS.split(record, 1)[0])
        for node in hosts(line[1])
        if node in listed.nodes
        for one in gpus(line[2])
    )


def _job(fields: dict[str, str]) -> Job:
    whole = _PART_OF.fullmatch(fields["i"])
    part = None if whole is None else (int(whole[1]), int(whole[3]))
    return Job(
        id=int(fields["A"]),
        user=label(fields["u"]),
        account=label(fields["a"]),
        partition=label(fields["P"]),
        qos=label(fields["q"]),
        name=label(fields["j"]),
        state=fields["T"].lower(),
        # A sentence for some: its first clause names the cause, the rest lists nodes.
        reason=label(re.split(r"[,:(]", fields["r"])[0]),
        nodes=int(fields["D"]) if fields["D"].isdecimal() else 0,
        tasks=tasks(fields["i"].partition("_[")[2].rstrip("]")),
        array=part if whole is not None and whole[2] == "_" else None,
        het=part if whole is not None and whole[2] == "+" else None,
        started=_time(fields["S"]),
        submitted=_time(fields["V"]),
        limit_seconds=limit_seconds(fields["l"]),
    )


# Both begin and end with what no mark contains, so that neither can be found half in a field.
def _before_record(mark: str) -> str:
    return f"|{mark}|job|"


def _before_field(mark: str) -> str:
    return f"|{mark}|"


def _time(text: str) -> float | None:
    return float(text) if text.isdecimal() and 0 < int(text) < 2**53 else None
