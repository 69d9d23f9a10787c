"""A Slurm cluster as samples: who holds which GPU, the queue, the nodes; and what is said when it fails."""

import json
from pathlib import Path

import pytest

from collectors.expose import render
from collectors.slurm import SlurmCollector
from collectors.slurm_commands import OptionRefused, TooMuchOutput
from collectors.types import CollectFailed, Remarks, Unsupported
from db.settings import load_settings
from tests.fakes_slurm import JOBS, JSON, MARK, NODES, TEXT, FakeCommands, stored
from tests.genuine_node_exporter import Page, page_of, read_page

NOW = 1_795_299_027.0
NO_JSON = OptionRefused("squeue does not know what it was asked: squeue: unrecognized option '--json'")


def collector(commands: FakeCommands, proc: Path = Path("/nowhere")) -> SlurmCollector:
    return SlurmCollector(commands=commands, proc=proc, clock=lambda: NOW, mark=lambda: MARK)


def collected(**changes: bytes) -> Page:
    return page_of(collector(FakeCommands(stored() | changes)).collect())


def rows(page: Page, name: str, *labels: str) -> set[tuple[str, ...]]:
    """The values of these labels of each series of a family."""
    found = [dict(own) for series, own in page.values if series == name]
    return {tuple(own.get(label, "") for label in labels) for own in found}


HOLDERS = {
    ("1", "vision", "gpu1", "0", "h100"),
    ("1", "vision", "gpu1", "1", "h100"),
    ("3", "nlp", "gpu1", "2", "h100"),
    ("3", "nlp", "gpu1", "3", "h100"),
    ("3", "nlp", "gpu2", "0", "h100"),
    ("3", "nlp", "gpu2", "1", "h100"),
    ("4", "nlp", "gpu1", "4", "h100"),
    ("5", "hetero", "gpu1", "5", "h100"),
    ("6", "hetero", "gpu2", "2", "h100"),
    ("9", "nlp", "gpu2", "4", "l40s"),
}
HOLDER_LABELS = ("job_id", "account", "hostname", "gpu", "gpu_type")


def test_each_gpu_of_a_running_job_names_its_holder():
    page = collected()
    assert rows(page, "strata_slurm_job_gpu_info", *HOLDER_LABELS) == HOLDERS
    assert page.where("strata_slurm_job_gpus", job_id="3", user="root", account="nlp", partition="train") == 4


def test_parts_of_arrays_and_of_heterogeneous_jobs_say_what_they_are_part_of():
    parts = ("job_id", "array_job_id", "array_task_id", "het_job_id", "het_job_offset")
    assert rows(collected(), "strata_slurm_job_info", *parts) == {
        ("1", "", "", "", ""),
        ("3", "", "", "", ""),
        ("4", "", "", "", ""),
        ("5", "", "", "5", "0"),
        ("6", "", "", "5", "1"),
        ("9", "2", "0", "", ""),
    }


def test_times_are_of_the_job():
    page = collected()
    job = {"job_id": "1", "user": "root", "account": "vision", "partition": "train"}
    assert page.where("strata_slurm_job_start_timestamp_seconds", **job) == 1_795_298_327
    assert page.where("strata_slurm_job_time_limit_seconds", **job) == 7200
    assert page.where("strata_slurm_job_nodes", **job) == 1
    without_limit = {one[0] for one in rows(page, "strata_slurm_job_gpus", "job_id")} - {
        one[0] for one in rows(page, "strata_slurm_job_time_limit_seconds", "job_id")
    }
    assert without_limit == {"5", "6"}


def test_the_queue_is_counted_task_by_task():
    page = collected()
    assert page.where("strata_slurm_jobs", partition="debug", state="pending") == 3
    assert page.where("strata_slurm_jobs", partition="train", state="pending") == 1
    assert page.where("strata_slurm_jobs", partition="train", state="running") == 6
    assert page.where("strata_slurm_pending_jobs", partition="debug", reason="JobArrayTaskLimit") == 3
    assert page.where("strata_slurm_pending_jobs", partition="train", reason="Resources") == 1
    assert page.where("strata_slurm_queue_wait_max_seconds", partition="train") == NOW - 1_795_298_327
    assert page.where("strata_slurm_queue_wait_max_seconds", partition="debug") == 0  # by its own limit


def test_gpus_are_counted_by_what_can_be_done_with_them():
    page = collected()
    assert page.where("strata_slurm_gpus", partition="train", state="allocated") == 10
    assert page.where("strata_slurm_gpus", partition="train", state="idle") == 4
    assert page.where("strata_slurm_gpus", partition="train", state="down") == 8
    assert page.where("strata_slurm_gpus", partition="debug", state="allocated") == 4
    assert page.where("strata_slurm_node_gpus", node="gpu2", hostname="gpu2") == 6
    assert page.where("strata_slurm_node_gpus_allocated", node="gpu1", hostname="gpu1") == 6


def test_a_node_says_its_state_and_the_operators_reason():
    assert rows(collected(), "strata_slurm_node_state_info", "node", "state", "reason") == {
        ("gpu1", "mixed", ""),
        ("gpu2", "mixed", ""),
        ("gpu3", "unknown+drain+not_responding", 'Xid 79 "fallen off" <b>'),
    }


@pytest.mark.parametrize("fault", [NO_JSON, TooMuchOutput("squeue prints more than 256 MB")])
def test_a_slurm_without_json_is_read_as_text_from_then_on(fault: CollectFailed):
    commands = FakeCommands(stored() | {JSON: fault})
    asked = collector(commands)
    page = page_of(asked.collect())
    assert commands.asked == [NODES, JSON, TEXT, JOBS]
    page_of(asked.collect())
    assert commands.asked == [NODES, TEXT, JOBS]
    assert rows(page, "strata_slurm_job_gpu_info", *HOLDER_LABELS) == HOLDERS
    by_json = collected()
    # Only how the reason is worded differs.
    reasons = ("strata_slurm_pending_jobs",)
    assert {key: value for key, value in page.values.items() if key[0] not in reasons} == {
        key: value for key, value in by_json.values.items() if key[0] not in reasons
    }
    assert page.where(*reasons, partition="train", reason="Nodes required for job are DOWN") == 1


def test_a_reading_asks_slurmctld_twice():
    commands = FakeCommands(stored())
    collector(commands).collect()
    assert commands.asked == [NODES, JSON]


def test_the_default_interval_is_half_a_minute_also_where_the_scrape_interval_is_shorter(tmp_path: Path):
    settings = load_settings(None, {"data": str(tmp_path)}, {})
    assert settings.collectors.slurm.interval == 30
    (tmp_path / "own.yaml").write_text("collectors: {slurm: {enabled: true, interval: }}\n")
    assert load_settings(tmp_path / "own.yaml", {}, {"HOME": "/"}).collectors.slurm.interval == 30


def test_a_name_from_anybody_is_one_short_printable_label():
    name = next(
        one for (one,) in rows(collected(), "strata_slurm_job_gpu_info", "job_name") if "mallory" in one
    )
    assert name == "a UserId=mallory(0) GroupId=x JobId=1 JobName=z NodeList=gpu1 No"
    document = json.loads(stored()[JSON])
    document["jobs"][0]["name"] = '<script>"\\\x07' + "x\n" * 500_000
    page = collected(**{JSON: json.dumps(document).encode()})
    (long,) = (one for (one,) in rows(page, "strata_slurm_job_info", "job_name") if "script" in one)
    assert long.startswith('<script>"\\ x x')
    assert len(long) <= 64


def test_one_gpu_has_one_holder_even_while_jobs_change_on_it():
    document = json.loads(stored()[JSON])
    leaving = dict(document["jobs"][0], job_id=99, job_state="COMPLETING")
    suspended = dict(document["jobs"][0], job_id=98, job_state="SUSPENDED")
    alone = dict(suspended, job_id=97, gres_detail=["gpu:h100:1(IDX:7)"])
    document["jobs"] = [leaving, suspended, alone, *document["jobs"]]
    page = collected(**{JSON: json.dumps(document).encode()})
    assert rows(page, "strata_slurm_job_gpu_info", *HOLDER_LABELS) == HOLDERS


@pytest.mark.parametrize(
    "empty",
    [
        {JSON: b'{"jobs": [], "errors": []}'},
        {JSON: NO_JSON, TEXT: b"", JOBS: b"No jobs in the system\n"},
    ],
)
def test_an_empty_cluster_counts_zero_instead_of_being_silent(empty: dict[str, bytes]):
    page = collected(**empty)
    assert page.where("strata_slurm_jobs", partition="train", state="pending") == 0
    assert page.where("strata_slurm_jobs", partition="debug", state="running") == 0
    assert rows(page, "strata_slurm_job_gpu_info", "gpu") == set()


def test_jobs_that_are_hidden_from_this_user_are_told_and_not_guessed():
    document = json.loads(stored()[JSON])
    document["jobs"] = [job for job in document["jobs"] if job["job_id"] == 1]
    commands = FakeCommands(stored() | {JSON: json.dumps(document).encode()})
    asked = collector(commands)
    asked.collect()
    assert isinstance(asked, Remarks)
    assert asked.note.startswith("jobs shown to this user hold 2 of 10 allocated GPUs: PrivateData")
    commands.answers = stored()
    asked.collect()
    assert asked.note == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({JSON: b"not json"}, "prints what is no JSON"),
        ({JSON: b"[" * 100_000}, "prints what is no JSON"),
        ({JSON: b'{"jobs": 5}'}, "without a list of jobs"),
        ({NODES: b""}, "scontrol lists no node to this user"),
        (
            {JSON: b'{"jobs": [], "errors": [{"description": "Failed to look", "error": "x"}]}'},
            "squeue --json: Failed to look, x; see scontrol ping",
        ),
        ({JSON: NO_JSON, TEXT: f"|{MARK}|job|5|{MARK}|x\n".encode()}, "prints a job as"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(changes: dict[str, bytes], said: str):
    with pytest.raises(CollectFailed, match=said) as raised:
        collector(FakeCommands(stored() | changes)).collect()
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_no_slurm_is_unsupported_and_a_slurm_that_vanishes_is_a_failure():
    gone = Unsupported("no scontrol on the PATH")
    commands = FakeCommands({NODES: gone})
    asked = collector(commands)
    with pytest.raises(Unsupported):
        asked.collect()
    commands.answers = stored()
    asked.collect()
    commands.answers = {NODES: gone}
    with pytest.raises(CollectFailed, match="and Slurm answered before"):
        asked.collect()


@pytest.mark.parametrize(("running", "silent"), [({"slurmd"}, True), ({"slurmd", "slurmctld"}, False)])
def test_only_a_controller_or_a_login_node_reports(tmp_path: Path, running: set[str], silent: bool):
    for number, name in enumerate(sorted(running), start=10):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
    (tmp_path / "11x").mkdir()
    (tmp_path / "999").mkdir()  # a process that has just ended
    commands = FakeCommands(stored())
    if silent:
        with pytest.raises(Unsupported, match="slurmd runs here and slurmctld does not"):
            collector(commands, tmp_path).collect()
        assert commands.asked == []
    else:
        asked = collector(commands, tmp_path)
        assert asked.collect()
        # A controller that is down makes no compute node of its machine.
        (tmp_path / "10" / "comm").write_text("bash\n")
        commands.answers = {NODES: CollectFailed("slurmctld does not answer scontrol")}
        with pytest.raises(CollectFailed, match="does not answer"):
            asked.collect()


def test_an_emulated_cluster_is_told_apart_by_slurms_names_and_a_real_one_by_its_own():
    text = stored()[NODES]
    assert isinstance(text, bytes)
    own = text.replace(b"NodeHostName=localhost Port=16818", b"NodeHostName=ip-10-0-0-7.example.org Port=1")
    page = collected(**{NODES: own})
    hosts = dict(rows(page, "strata_slurm_job_gpu_info", "node", "hostname"))
    assert hosts == {"gpu1": "ip-10-0-0-7", "gpu2": "gpu2"}


def test_the_page_is_valid_exposition():
    text = render(collector(FakeCommands(stored())).collect())
    assert set(read_page(text).types.values()) == {"gauge"}
