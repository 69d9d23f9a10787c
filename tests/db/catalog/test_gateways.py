"""Gateways and engines see the same requests: each counts once. What an exporter lacks, its setting says."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from db.catalog.load import load_catalog
from db.catalog.read import read_signal
from db.catalog.signal import Missing, Resolved
from db.store import SampleStore
from tests.db.catalog.pages import LAST_MS, fixture, names_of, ramped, read_page, stored

CATALOG = load_catalog()


@contextmanager
def scraped(folder: Path, targets: Mapping[str, str]) -> Iterator[SampleStore]:
    """A store with these pages, by instance."""
    scrapes = [
        ramped(read_page(fixture(page)), {"job": "test", "instance": instance})
        for instance, page in targets.items()
    ]
    with stored(folder / "samples.db", scrapes) as store:
        yield store


def resolved(store: SampleStore, name: str, by: tuple[str, ...] | None = None) -> Resolved:
    answer = CATALOG.resolve(name, names_of(store), by=by)
    assert isinstance(answer, Resolved), answer
    return answer


def test_requests_that_an_engine_counts_are_not_counted_again_at_the_gateway(tmp_path: Path):
    pages = {"litellm-0:4000": "litellm/limits.prom", "bento-0:3000": "bentoml/service.prom"}
    with scraped(tmp_path, pages) as store:
        assert resolved(store, "requests_per_second").exporters == ("bentoml",)
        assert resolved(store, "request_errors_per_second").exporters == ("bentoml",)
        assert resolved(store, "client_requests_per_second").exporters == ("litellm",)


def test_a_deployment_behind_two_proxies_is_as_healthy_as_the_worse_of_them_says(tmp_path: Path):
    pages = {"litellm-0:4000": "litellm/limits.prom", "litellm-1:4000": "litellm/limits.prom"}
    with scraped(tmp_path, pages) as store:
        readings = read_signal(store, resolved(store, "engine_healthy"), LAST_MS)
    assert {dict(item.labels)["instance"]: item.value for item in readings} == {
        "http://vllm-0:8000/v1": 1.0,
        "http://vllm-1:8000/v1": 0.0,
    }


def test_a_proxy_that_does_not_count_by_status_has_no_success_ratio():
    names = {"litellm_proxy_total_requests_metric_total"}
    answer = CATALOG.resolve("client_success_ratio", names, has_series=lambda _: False)
    assert isinstance(answer, Missing)


def test_the_clients_of_nfs_are_asked_for_by_node_exporters_option(tmp_path: Path):
    with scraped(tmp_path, {"nas-0:9100": "nfs/server.prom"}) as store:
        answer = CATALOG.resolve("storage_latency_mean", names_of(store))
    assert isinstance(answer, Missing)
    assert answer.ways[0].present
    assert "--collector.mountstats" in answer.ways[0].text


def test_one_bond_of_any_name_is_not_added_to_its_members(tmp_path: Path):
    with scraped(tmp_path, {"gpu-0:9100": "node_exporter/mounts-and-links.prom"}) as store:
        whole = resolved(store, "node_network_receive_bytes_per_second", by=())
        [reading] = read_signal(store, whole, LAST_MS)
    assert round(reading.value, 6) == 7000.0
