"""Whose a GPU is, in PromQL over a store filled from real pages: by pod, by Slurm job, by process.

The queries are those that pages and rules use; what they give here is written down by hand.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from collectors.expose import render
from collectors.exposition import PageParser
from collectors.slurm import SlurmCollector
from db.labels import labels_from
from db.promql.engine import instant
from db.records import DenseAppend
from db.store import SampleStore
from tests.collectors.pages import FIXTURES
from tests.fakes_slurm import FakeCommands, stored

FIRST_MS = 1_795_000_020_000  # a whole minute
MINUTE_MS = 60_000
MINUTES = 120
LAST_MS = FIRST_MS + MINUTES * MINUTE_MS

# The exporter's own pod is on every series where the scrape does not honour the page's labels, and on `up`;
# the GPU's pod, where it has one, then stands beside it as exported_pod. Empty labels are absent ones.
MEMORY = '{__name__=~"DCGM_FI_DEV_FB_USED(_BYTES)?"%s}'
POD_OF_GPU = f"""
group by (UUID, gpu, GPU_I_ID, namespace, pod, container) (
    label_replace(label_replace(label_replace({MEMORY % ',exported_pod!=""'},
        "pod", "$1", "exported_pod", "(.+)"), "namespace", "$1", "exported_namespace", "(.+)"),
        "container", "$1", "exported_container", "(.+)")
    or ({MEMORY % ',exported_pod="",pod!=""'} unless on (job, instance, namespace, pod) up)
    or label_replace(label_replace(label_replace({MEMORY % ',exported_pod="",pod="",pod_name!=""'},
        "pod", "$1", "pod_name", "(.+)"), "namespace", "$1", "pod_namespace", "(.+)"),
        "container", "$1", "container_name", "(.+)")
)"""
TEAM_OF_GPU = f"""
{POD_OF_GPU} * on (namespace, pod) group_left (label_team)
    topk by (namespace, pod) (1, kube_pod_labels{{exported_pod=""}}
        or label_replace(label_replace(kube_pod_labels{{exported_pod!=""}},
            "pod", "$1", "exported_pod", "(.+)"), "namespace", "$1", "exported_namespace", "(.+)"))"""

# Watts of a board, once: with MIG the exporter repeats them on each instance's row. Both spellings of the
# host's label, without a domain.
BOARD_POWER = """
max by (hostname, gpu) (
    label_replace(label_replace({__name__=~"DCGM_FI_DEV_(POWER_USAGE|BOARD_POWER_WATTS)"},
        "hostname", "$1", "hostname", "([^.]+).*"), "hostname", "$1", "Hostname", "([^.]+).*")
)"""
# topk: two machines may report one cluster.
HOLDER = "topk by (hostname, gpu) (1, strata_slurm_job_gpu_info)"
POWER_BY_JOB = f"{BOARD_POWER} * on (hostname, gpu) group_left (job_id, user, account, partition) {HOLDER}"
POWER_BY_ACCOUNT = f"sum by (account) ({POWER_BY_JOB})"
POWER_OF_NOBODY = f"sum({BOARD_POWER} unless on (hostname, gpu) strata_slurm_job_gpu_info)"
# One value a job and minute, whoever reports it; interval and lost readings do not change the unit.
GPU_HOURS_BY_ACCOUNT = """
sum_over_time(sum by (account) (max by (job_id, account) (strata_slurm_job_gpus))[1h:1m]) / 60"""
# A prolog that writes SLURM_JOB_ID for dcgm-exporter's --hpc-job-mapping-dir: exact for MIG as well.
ACCOUNT_BY_MAPPING = """
group by (UUID, gpu, GPU_I_ID, job_id) (
    label_replace({__name__=~"DCGM_FI_DEV_FB_USED(_BYTES)?",hpc_job!=""}, "job_id", "$1", "hpc_job", "(.+)"))
* on (job_id) group_left (user, account) topk by (job_id) (1, strata_slurm_job_info)"""

USER_OF_GPU = "group by (UUID, gpu, GPU_I_ID, user) (strata_gpu_process_memory_bytes)"
# Shared by memory where several users are on one GPU.
POWER_BY_USER = """
sum by (user) (
    sum by (UUID, user) (strata_gpu_process_memory_bytes)
    / on (UUID) group_left () sum by (UUID) (strata_gpu_process_memory_bytes)
    * on (UUID) group_left () max by (UUID) ({__name__=~"DCGM_FI_DEV_(POWER_USAGE|BOARD_POWER_WATTS)"})
)"""


class Cluster:
    """A store that pages are written into every minute for two hours."""

    def __init__(self, store: SampleStore) -> None:
        self._store = store

    def add(self, page: bytes, target: Mapping[str, str], first: int = 0, last: int = MINUTES) -> None:
        """A page as a scrape stores it: the target's labels stay, the page's own become exported_*."""
        parsed = PageParser(strict=False).parse(page, "text")
        labels = []
        for index in range(len(parsed.values)):
            own = {name: value for name, value in parsed.layout.labels(index) if value}
            renamed = {f"exported_{name}" if name in target else name: own[name] for name in own}
            labels.append(labels_from({**renamed, **target}))
        labels.append(labels_from(target, "up"))
        values = np.append(parsed.values, 1.0)
        layout = f"{target['job']} {target['instance']} {first}"
        appends = [
            DenseAppend(layout, labels if minute == first else [], FIRST_MS + MINUTE_MS * minute, values)
            for minute in range(first, last + 1)
        ]
        self._store.write(appends)

    def ask(self, query: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Each series' value by these of its labels; no two series may have the same."""
        answer = instant(self._store, query, LAST_MS)
        rows = [dict(row) for row in answer.table.rows()]
        found = {
            tuple(row.get(label, "") for label in labels): float(value)
            for row, value in zip(rows, answer.values[:, 0], strict=True)
        }
        assert len(found) == len(rows)
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    store = SampleStore.open(tmp_path / "samples.db")
    try:
        yield Cluster(store)
    finally:
        store.close()


def dcgm(name: str) -> bytes:
    return (FIXTURES / "dcgm" / name).read_bytes()


def slurm() -> bytes:
    return render(SlurmCollector(commands=FakeCommands(stored()), proc=Path("/nowhere")).collect()).encode()


T4 = "t4x2-k8s-fraction.prom"
T4_OWNED = (
    "GPU-7a2e92f2-be71-d37e-a744-541600ffc722",
    "0",
    "runai-reservation",
    "runai-reservation-gpu-qa-mig-worker-gpu-1-kvltw",
    "runai-reservation",
)
OWNED = ("UUID", "gpu", "namespace", "pod", "container")
PLAIN = {"job": "dcgm", "instance": "10.0.0.7:9400"}
# As the Prometheus operator's ServiceMonitor labels a target.
OPERATOR = PLAIN | {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-s228n", "container": "exporter"}


@pytest.mark.parametrize("target", [PLAIN, OPERATOR], ids=["honoured", "exported"])
def test_a_pods_gpu_is_the_pods_and_a_free_one_is_nobodys(cluster: Cluster, target: Mapping[str, str]):
    cluster.add(dcgm(T4), target)
    assert cluster.ask(POD_OF_GPU, *OWNED) == {T4_OWNED: 1}


def test_the_old_spelling_of_the_labels_says_the_same(cluster: Cluster):
    page = dcgm(T4)
    for old, new in ((b"container=", b"container_name="), (b"namespace=", b"pod_namespace=")):
        page = page.replace(old, new)
    cluster.add(page.replace(b",pod=", b",pod_name="), PLAIN)
    assert cluster.ask(POD_OF_GPU, *OWNED) == {T4_OWNED: 1}


def test_an_instance_of_a_gpu_has_an_owner_of_its_own(cluster: Cluster):
    page = dcgm("a100-mig-mixed.prom")
    held = b'GPU_I_ID="9",Hostname="nvidia-dcgm-exporter-q28k4",DCGM_FI_DRIVER_VERSION="520.56.06",'
    assert held in page
    free, owned = b'container="",namespace="",pod=""', b'container="vllm",namespace="chat",pod="llama-0"'
    cluster.add(page.replace(held + free, held + owned), OPERATOR)
    assert cluster.ask(POD_OF_GPU, "gpu", "GPU_I_ID", "pod") == {("0", "9", "llama-0"): 1}


def test_a_pods_team_comes_from_kube_state_metrics(cluster: Cluster):
    cluster.add(dcgm(T4), OPERATOR)
    pod, namespace = T4_OWNED[3], T4_OWNED[2]
    labels = f'kube_pod_labels{{namespace="{namespace}",pod="{pod}",label_team="chat"}} 1\n'
    state = OPERATOR | {"job": "kube-state-metrics", "instance": "10.0.0.9:8080", "pod": "ksm-0"}
    cluster.add(labels.encode(), state)
    assert cluster.ask(TEAM_OF_GPU, "gpu", "label_team") == {("0", "chat"): 1}


def boards(spelling: str, host: str, *watts: float) -> bytes:
    name = "DCGM_FI_DEV_BOARD_POWER_WATTS" if spelling == "hostname" else "DCGM_FI_DEV_POWER_USAGE"
    rows = (
        f'{name}{{gpu="{gpu}",UUID="GPU-{host}-{gpu}",{spelling}="{host}"}} {value}\n'
        for gpu, value in enumerate(watts)
    )
    return "".join(rows).encode()


def add_gpus(cluster: Cluster) -> None:
    """gpu1 under the names before 4.9 and as a full domain name; gpu2 under those of 4.9."""
    target = {"job": "dcgm", "instance": "gpu1:9400"}
    cluster.add(boards("Hostname", "gpu1.example.org", 100, 110, 200, 210, 300, 400, 50, 60), target)
    cluster.add(boards("hostname", "gpu2", 500, 510, 600, 70, 80, 90), target | {"instance": "gpu2:9400"})


def test_watts_go_to_the_slurm_job_that_holds_the_gpu(cluster: Cluster):
    add_gpus(cluster)
    cluster.add(slurm(), {"job": "slurm", "instance": "head"})
    assert cluster.ask(f"sum by (job_id, user) ({POWER_BY_JOB})", "job_id", "user") == {
        ("1", "root"): 210,
        ("3", "root"): 200 + 210 + 500 + 510,
        ("4", "root"): 300,
        ("5", "root"): 400,
        ("6", "root"): 600,
        ("9", "root"): 80,
    }
    assert cluster.ask(POWER_BY_ACCOUNT, "account") == {
        ("vision",): 210,
        ("nlp",): 1420 + 300 + 80,
        ("hetero",): 1000,
    }
    assert cluster.ask(POWER_OF_NOBODY) == {(): 50 + 60 + 70 + 90}


def test_two_reporters_of_one_cluster_change_nothing(cluster: Cluster):
    add_gpus(cluster)
    for head in ("head1", "head2"):
        cluster.add(slurm(), {"job": "slurm", "instance": head})
    assert cluster.ask(POWER_BY_ACCOUNT, "account")[("vision",)] == 210
    assert cluster.ask(GPU_HOURS_BY_ACCOUNT, "account")[("vision",)] == pytest.approx(2)


def test_the_boards_power_is_counted_once_with_mig(cluster: Cluster):
    page = dcgm("a100-mig-mixed.prom")
    watts = {
        line.rsplit(b" ", 1)[1] for line in page.splitlines() if line.startswith(b"DCGM_FI_DEV_POWER_USAGE{")
    }
    assert watts == {b"116.043000", b"116.163000"}  # read one after the other, on three rows
    cluster.add(page, PLAIN)
    assert list(cluster.ask(BOARD_POWER, "gpu").values()) == [116.163]


def test_gpu_hours_are_those_that_a_job_held(cluster: Cluster):
    info = 'strata_slurm_job_gpus{job_id="%s",user="a",account="%s",partition="train"} %s\n'
    head = {"job": "slurm", "instance": "head"}
    cluster.add((info % ("1", "nlp", 8)).encode(), head)
    # Half an hour of the last one.
    cluster.add((info % ("2", "vision", 4)).encode(), head | {"instance": "head2"}, first=91)
    assert cluster.ask(GPU_HOURS_BY_ACCOUNT, "account") == {("nlp",): 8, ("vision",): pytest.approx(2)}


def test_the_exporters_own_job_mapping_reaches_the_account(cluster: Cluster):
    page = dcgm("a100-mig-mixed.prom").replace(b'GPU_I_ID="9",', b'GPU_I_ID="9",hpc_job="9",')
    cluster.add(page, PLAIN)
    cluster.add(slurm(), {"job": "slurm", "instance": "head"})
    asked = cluster.ask(ACCOUNT_BY_MAPPING, "gpu", "GPU_I_ID", "job_id", "account")
    assert asked == {("0", "9", "9", "nlp"): 1}


def test_processes_say_who_is_on_a_gpu_and_share_its_power(cluster: Cluster):
    cluster.add(boards("Hostname", "box", 300, 100), {"job": "dcgm", "instance": "box:9400"})
    held = 'strata_gpu_process_memory_bytes{gpu="%s",UUID="GPU-box-%s",pid="%s",user="%s",type="C"} %s\n'
    rows = (("0", "0", 11, "ada", 60e9), ("0", "0", 12, "ada", 15e9), ("0", "0", 13, "bob", 25e9))
    rows += (("1", "1", 14, "bob", 5e9),)
    cluster.add("".join(held % row for row in rows).encode(), {"job": "nvml", "instance": "box"})
    assert cluster.ask(USER_OF_GPU, "gpu", "user") == {("0", "ada"): 1, ("0", "bob"): 1, ("1", "bob"): 1}
    assert cluster.ask(POWER_BY_USER, "user") == {("ada",): 225, ("bob",): 175}
