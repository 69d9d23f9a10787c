"""A Slurm job's GPUs are found among those that an exporter reports: Slurm has indices, exporters UUIDs."""

from pathlib import Path

from db.catalog.load import load_catalog
from db.catalog.read import read_signal
from db.catalog.signal import Resolved
from db.labels import labels_from
from tests.db.catalog.pages import LAST_MS, Scrape, fixture, names_of, ramped, read_page, stored

T4 = "dcgm/t4x2-k8s-fraction.prom"


def holder(job: str, hostname: str, gpu: str) -> dict[str, str]:
    return {"job_id": job, "user": "ann", "account": "ml", "hostname": hostname, "node": hostname, "gpu": gpu}


def test_the_job_that_holds_a_gpu(tmp_path: Path):
    page = read_page(fixture(T4))
    host = next(dict(page.layout.labels(0))[name] for name in ("Hostname",))
    short = host.split(".")[0]
    jobs = [holder("7", short, "0"), holder("8", "elsewhere", "3")]
    labels = [
        labels_from({**job, "job": "slurm", "instance": "head"}, "strata_slurm_job_gpu_info") for job in jobs
    ]
    slurm = [Scrape(LAST_MS - 15_000 * step, labels, [1.0, 1.0]) for step in (2, 1, 0)]
    targets = [ramped(page, {"job": "dcgm", "instance": f"{host}:9400"}), slurm]
    with stored(tmp_path / "samples.db", targets) as store:
        catalog = load_catalog()
        found = catalog.resolve("gpu_owner", names_of(store), by=catalog.signals["gpu_owner"].entity)
        assert isinstance(found, Resolved)
        owners = [dict(reading.labels) for reading in read_signal(store, found, LAST_MS)]
    slurms = {owner["job_id"]: owner for owner in owners if owner["owner_kind"] == "slurm"}
    uuid = next(
        dict(page.layout.labels(index))["UUID"]
        for index in range(len(page.values))
        if dict(page.layout.labels(index))["gpu"] == "0"
    )
    assert slurms["7"]["uuid"] == uuid
    assert slurms["7"]["node"] == host
    assert (slurms["7"]["user"], slurms["7"]["account"]) == ("ann", "ml")
    assert "uuid" not in slurms["8"]
    assert set(slurms) == {"7", "8"}
    assert len([owner for owner in owners if owner["owner_kind"] == "slurm"]) == 2
