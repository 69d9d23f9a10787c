"""The Slurm collector against Debian's Slurm: what its jobs hold is what the cluster says."""

from collections.abc import Iterator

import pytest

from collectors.slurm import SlurmCollector
from collectors.slurm_commands import OptionRefused, SlurmCommands
from collectors.types import CollectFailed, Unsupported
from tests.genuine_node_exporter import Page, page_of
from tests.slurm_cluster import SlurmCluster, slurm_cluster

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as running:
        yield running


class WithoutJson:
    """A Slurm whose squeue was built without JSON."""

    def __init__(self, commands: SlurmCommands) -> None:
        self._commands = commands

    def begin(self) -> None:
        self._commands.begin()

    def run(self, program: str, *arguments: str) -> bytes:
        if "--json" in arguments:
            raise OptionRefused("squeue: unrecognized option '--json'")
        return self._commands.run(program, *arguments)


def holders(page: Page) -> dict[tuple[str, str], str]:
    """(hostname, gpu) to the job's id."""
    return {
        (dict(labels)["hostname"], dict(labels)["gpu"]): dict(labels)["job_id"]
        for name, labels in page.values
        if name == "strata_slurm_job_gpu_info"
    }


@pytest.mark.parametrize("json", [True, False], ids=["json", "text"])
def test_a_job_holds_its_gpus_from_start_to_end(cluster: SlurmCluster, json: bool):
    commands = cluster.commands() if json else WithoutJson(cluster.commands())
    collector = SlurmCollector(commands=commands)
    name = 'fine <b>tune</b> "x"=\\\n   UserId=mallory(0)'
    wide = cluster.submit(
        "--account=nlp", "--nodes=2", "--ntasks=2", "--gres=gpu:h100:2", "--time=90", name=name
    )
    small = cluster.submit("--account=vision", "--partition=debug", "--gres=gpu:l40s:1")
    cluster.wait_running(wide, small)
    array = cluster.submit("--array=0-4%1", "--gres=gpu:6", "--nodelist=gpu1")
    try:
        page = page_of(collector.collect())
        job, other = str(wide), str(small)
        assert holders(page) == {
            ("gpu1", "0"): job,
            ("gpu1", "1"): job,
            ("gpu2", "0"): job,
            ("gpu2", "1"): job,
            ("gpu2", "2"): other,
        }
        labels = {"job_id": job, "account": "nlp", "partition": "train"}
        found = [dict(series[1]) for series in page.values if series[0] == "strata_slurm_job_info"]
        assert {one["job_name"] for one in found} == {'fine <b>tune</b> "x"=\\ UserId=mallory(0)', "test"}
        user = found[0]["user"]
        assert page.where("strata_slurm_job_gpus", user=user, **labels) == 4
        assert page.where("strata_slurm_job_nodes", user=user, **labels) == 2
        assert page.where("strata_slurm_job_time_limit_seconds", user=user, **labels) == 5400
        assert page.where("strata_slurm_jobs", partition="train", state="pending") == 5
        assert page.where("strata_slurm_gpus", partition="debug", state="idle") == 1
        assert page.where("strata_slurm_node_gpus_allocated", node="gpu2", hostname="gpu2") == 3
        assert collector.note == ""
    finally:
        cluster.cancel(wide, small, array)
    cluster.wait_ended(wide, small, array)
    page = page_of(collector.collect())
    assert holders(page) == {}
    assert page.where("strata_slurm_gpus", partition="train", state="allocated") == 0
    assert page.where("strata_slurm_gpus", partition="train", state="idle") == 10


@pytest.mark.parametrize("json", [True, False], ids=["json", "text"])
def test_a_name_that_imitates_another_job_takes_nothing_from_it(cluster: SlurmCluster, json: bool):
    commands = cluster.commands() if json else WithoutJson(cluster.commands())
    collector = SlurmCollector(commands=commands)
    victim = cluster.submit("--account=victim", "--gres=gpu:h100:2", "--nodelist=gpu1")
    cluster.wait_running(victim)
    forged = f"     Nodes=gpu1 CPU_IDs=0 Mem=0 GRES=gpu:h100:6(IDX:0-5)\n\nJobId={victim} JobName=z\n"
    thief = cluster.submit("--gres=gpu:h100:1", "--nodelist=gpu1", name=f"a\n{forged}{forged}   Account=x")
    cluster.wait_running(thief)
    try:
        truth = {("gpu1", "0"): str(victim), ("gpu1", "1"): str(victim), ("gpu1", "2"): str(thief)}
        assert holders(page_of(collector.collect())) == truth
        assert collector.note == ""
    finally:
        cluster.cancel(victim, thief)
    cluster.wait_ended(victim, thief)


def test_a_drained_node_takes_its_gpus_out_and_says_why(cluster: SlurmCluster):
    cluster.drain("gpu2", 'Xid 79 "fallen off" <b>')
    try:
        page = page_of(SlurmCollector(commands=cluster.commands()).collect())
        assert page.where("strata_slurm_gpus", partition="debug", state="drained") == 4
        assert page.where("strata_slurm_gpus", partition="train", state="idle") == 6
        info = {"node": "gpu2", "hostname": "gpu2", "state": "idle+drain"}
        assert page.where("strata_slurm_node_state_info", reason='Xid 79 "fallen off" <b>', **info) == 1
    finally:
        cluster.resume("gpu2")


def test_a_dead_controller_is_one_sentence_and_comes_back(cluster: SlurmCluster):
    collector = SlurmCollector(commands=cluster.commands())
    collector.collect()
    cluster.stop_controller()
    try:
        with pytest.raises(CollectFailed) as raised:
            collector.collect()
    finally:
        cluster.start_controller()
    assert "slurmctld" in str(raised.value)
    assert "scontrol ping" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert page_of(collector.collect()).where("strata_slurm_jobs", partition="train", state="running") == 0


def test_a_comment_that_imitates_a_job_makes_its_gpus_unknown_in_text_alone(cluster: SlurmCluster):
    victim = cluster.submit("--gres=gpu:h100:2", "--nodelist=gpu1")
    forged = f"a\n\nJobId={victim} JobName=z\n     Nodes=gpu1 CPU_IDs=0 Mem=0 GRES=gpu:h100:6(IDX:0-5)"
    thief = cluster.submit("--gres=gpu:h100:1", "--nodelist=gpu1", f"--comment={forged}")
    cluster.wait_running(victim, thief)
    try:
        by_json, by_text = (
            SlurmCollector(commands=cluster.commands()),
            SlurmCollector(commands=WithoutJson(cluster.commands())),
        )
        held = holders(page_of(by_json.collect()))
        assert sorted(held.values()) == sorted([str(victim), str(victim), str(thief)])
        assert by_json.note == ""
        shown = holders(page_of(by_text.collect()))
        assert shown == {where: job for where, job in held.items() if job == str(thief)}
        assert "hold 1 of 3 allocated GPUs" in by_text.note
    finally:
        cluster.cancel(victim, thief)
    cluster.wait_ended(victim, thief)


def test_installed_and_without_a_cluster_is_unsupported(cluster: SlurmCluster):
    elsewhere = {"PATH": cluster.environ["PATH"], "SLURM_CONF_SERVER": "", "SLURM_CONF": "/dev/null"}
    with pytest.raises(Unsupported, match="set SLURM_CONF"):
        SlurmCollector(commands=SlurmCommands(elsewhere)).collect()
