"""Slurm's notations and layouts from 19.05 to 25.05, by hand from its manual pages and OpenAPI schemas."""

import json

import pytest

from collectors import slurm_json, slurm_listing, slurm_nodes
from collectors.slurm_records import Held
from collectors.slurm_text import Gpus, gpus, hosts, label, limit_seconds, tasks


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu1", ["gpu1"]),
        ("gpu[001-003,010],login", ["gpu001", "gpu002", "gpu003", "gpu010", "login"]),
        ("rack[1-2]n[0-1]-ib", ["rack1n0-ib", "rack1n1-ib", "rack2n0-ib", "rack2n1-ib"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("(null)", []),
        ("None assigned", []),
    ],
)
def test_host_lists(text: str, names: list[str]):
    assert list(hosts(text)) == names


def test_a_host_list_without_end_is_cut():
    assert len(hosts("n[0-999999999]")) <= 100_000
    assert len(hosts("a[0-99999]b[0-99999]")) <= 100_000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:h100:8(S:0-1)", [("h100", 8, ())]),
        ("gpu:h100:2(IDX:0-1)", [("h100", 2, (0, 1))]),
        ("gpu:a100:3(IDX:0,2,7),shard:a100:4(1/4,3/4)", [("a100", 3, (0, 2, 7))]),
        ("gpu:2(IDX:4-5)", [("", 2, (4, 5))]),
        ("gpu(IDX:1)", [("", 1, (1,))]),
        ("gpu:tesla(IDX:0-1)", [("tesla", 2, (0, 1))]),
        ("gpu:h100:0(IDX:N/A),gpu:l40s:1(IDX:4)", [("h100", 0, ()), ("l40s", 1, (4,))]),
        ("gpu:a100_1g.5gb:7(CNT:7)", [("a100_1g.5gb", 7, ())]),
        ("gres:gpu:4", [("", 4, ())]),
        ("gres/gpu:h100:4", [("h100", 4, ())]),
        ("gpu:1080:2", [("1080", 2, ())]),
        ("mps:100,craynetwork:1", []),
        ("(null)", []),
        ("gpu:2K", [("", 2048, ())]),
    ],
)
def test_generic_resources(text: str, found: list[tuple[str, int, tuple[int, ...]]]):
    assert [(one.type, one.count, one.indices) for one in gpus(text)] == found


@pytest.mark.parametrize(
    ("text", "count"), [("", 1), ("5", 1), ("0-3%2", 4), ("1,3,7-9", 5), ("0-99:10", 10), ("1-3,...", 3)]
)
def test_array_tasks_are_counted(text: str, count: int):
    assert tasks(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7-00:00:00", 604800),
        ("2:00:00", 7200),
        ("30:00", 1800),
        ("0:30", 30),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_time_limits(text: str, seconds: float | None):
    assert limit_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n b\tc\x00", "a b c"),
        ("(null)", ""),
        ("x" * 1_000_000, "x" * 64),
        ("\u202eevil", "evil"),
        ("ü", "ü"),
    ],
)
def test_labels_are_printable_and_short(text: str, shown: str):
    assert label(text) == shown


def number(value: float | None) -> dict[str, object]:
    """As data_parser v0.0.39 and later write it."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def test_json_of_24_05_says_the_same_with_other_shapes():
    record = {
        "job_id": 289497,
        "job_state": ["RUNNING"],
        "user_name": "ada",
        "account": "nlp",
        "partition": "train",
        "qos": "normal",
        "name": "pretrain",
        "node_count": number(2),
        "nodes": "gpu[14-15]",
        "array_job_id": number(289490),
        "array_task_id": number(0),
        "array_task_string": "",
        "het_job_id": number(0),
        "het_job_offset": number(None),
        "start_time": number(1_700_000_000),
        "submit_time": number(1_699_999_000),
        "time_limit": {"set": True, "infinite": True, "number": 0},
        "gres_detail": ["gpu:l40s:2(IDX:0-1)", "gpu:l40s:1(IDX:3)"],
        "job_resources": {"nodes": {"count": 2, "list": "gpu[14-15]", "allocation": [{"name": "gpu14"}]}},
    }
    finishing = dict(record, job_id=2, job_state=["COMPLETED", "COMPLETING"])
    ended = dict(record, job_id=3, job_state=["COMPLETED"])
    pending = dict(record, job_id=4, job_state=["PENDING"], array_task_string="1-9", gres_detail=[])
    jobs = slurm_json.jobs(json.dumps({"jobs": [record, finishing, ended, pending], "errors": []}).encode())
    assert [(job.id, job.state, job.tasks) for job in jobs] == [
        (289497, "running", 1),
        (2, "completing", 1),
        (4, "pending", 9),
    ]
    job = jobs[0]
    assert (job.user, job.qos, job.nodes) == ("ada", "normal", 2)
    assert (job.array, job.het, job.limit_seconds) == ((289490, 0), None, None)
    assert (job.started, job.submitted) == (1_700_000_000, 1_699_999_000)
    assert job.held == (
        Held("gpu14", Gpus("l40s", 2, (0, 1))),
        Held("gpu15", Gpus("l40s", 1, (3,))),
    )


@pytest.mark.parametrize(
    "value", [None, "x", [], {}, True, 1e300, float("nan"), {"number": "5"}, {"set": True}]
)
def test_a_field_of_another_kind_is_unknown_and_breaks_nothing(value: object):
    record = {"job_id": 7, "job_state": "RUNNING", "user_id": 1000, "nodes": "gpu1"}
    odd = dict.fromkeys(
        ("account", "name", "time_limit", "start_time", "node_count", "gres_detail", "job_resources"), value
    )
    (job,) = slurm_json.jobs(json.dumps({"jobs": [record | odd, value, {"job_id": value}]}).encode())
    assert (job.id, job.user, job.limit_seconds, job.held) == (7, "1000", None, ())


def test_gpus_that_fit_no_node_are_not_given_to_any():
    record = {"job_id": 7, "job_state": "RUNNING", "nodes": "gpu1", "gres_detail": ["gpu:1(IDX:0)"] * 2}
    (job,) = slurm_json.jobs(json.dumps({"jobs": [record]}).encode())
    assert job.held == ()


def line(mark: str, *fields: str) -> bytes:
    return f"|{mark}|job|".encode() + f"|{mark}|".join(fields).encode() + b"\n"


def test_text_of_19_05_names_gpus_as_gres_idx():
    fields = (
        "12",
        "12",
        "ada",
        "nlp",
        "train",
        "normal",
        "RUNNING",
        "None",
        "gpu[1-2]",
        "2",
        "5",
        "1",
        "1:00",
    )
    listed = slurm_listing.jobs(line("m", *fields, "old name"), "m")
    details = b"""JobId=12 JobName=old name
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
     Nodes=gpu[1-2] CPU_IDs=0-1 Mem=0 GRES_IDX=gpu:tesla(IDX:0-1)
   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0
"""
    (job,) = slurm_listing.with_gpus(listed, details)
    assert (job.name, job.user, job.limit_seconds, job.started) == ("old name", "ada", 60, 5)
    assert job.held == tuple(Held(node, Gpus("tesla", 2, (0, 1))) for node in ("gpu1", "gpu2"))


def test_a_job_that_text_lists_twice_has_unknown_gpus():
    fields = ("a", "b", "c", "d", "RUNNING", "None", "gpu1", "1", "5", "1", "1:00", "name")
    listed = slurm_listing.jobs(b"".join(line("m", job, job, *fields) for job in ("12", "13")), "m")
    held = "JobId={} JobName=name\n     Nodes=gpu1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:{})\n   Comment=x\n"
    details = "".join(held.format(*pair) for pair in ((12, 0), (13, 1), (12, 2)))
    jobs = slurm_listing.with_gpus(listed, details.encode())
    assert {job.id: [one.gpus.indices for one in job.held] for job in jobs} == {12: [], 13: [(1,)]}


def test_a_name_with_the_marks_shape_is_still_a_name():
    fields = (
        "12",
        "12",
        "a",
        "b",
        "c",
        "d",
        "RUNNING",
        "None",
        "gpu1",
        "1",
        "5",
        "1",
        "1:00",
        "x|n|job|13|n|y",
    )
    (listed,) = slurm_listing.jobs(line("m", *fields), "m")
    assert listed.job.name == "x|n|job|13|n|y"


@pytest.mark.parametrize(
    ("state", "unallocated"),
    [
        ("IDLE", "idle"),
        ("MIXED+PLANNED", "reserved"),
        ("IDLE+DRAIN", "drained"),
        ("ALLOCATED+DRAIN", "drained"),
        ("DOWN*+DRAIN", "down"),
        ("IDLE*", "down"),
        ("IDLE+CLOUD+POWERED_DOWN", "down"),
        ("IDLE+MAINTENANCE+RESERVED", "reserved"),
        ("MIXED+COMPLETING", "idle"),
        ("DOWN+NOT_RESPONDING", "down"),
    ],
)
def test_what_a_free_gpu_of_a_node_is(state: str, unallocated: str):
    text = (
        f"NodeName=gpu1 Arch=x86_64\n   Gres=gpu:8\n   GresUsed=gpu:2(IDX:0-1)\n   State={state} Weight=1\n"
    )
    (node,) = slurm_nodes.nodes(text.encode())
    assert (node.unallocated_are, node.gpus, node.allocated) == (unallocated, 8, 2)


def test_an_operators_text_is_no_field_of_the_node():
    text = b"""NodeName=gpu1 Arch=x86_64 CoresPerSocket=1
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=10.0.0.7 NodeHostName=gpu1.example.org Version=25.05.1
   OS=Linux State=DOWN 6.1
   State=MIXED ThreadsPerCore=1
   Partitions=train,debug
   Comment=Gres=gpu:99 State=DOWN
   Reason=replug State=DOWN Gres=gpu:99 [root@2026-11-21T21:58:47]

NodeName=cloud1 Arch=x86_64
   State=FUTURE ThreadsPerCore=1
"""
    (node,) = slurm_nodes.nodes(text)
    assert (node.hostname, node.state, node.gpus, node.partitions) == ("gpu1", "mixed", 8, ("train", "debug"))
    assert node.reason == "replug State=DOWN Gres=gpu:99"
