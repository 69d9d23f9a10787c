"""What runs on this machine is found by its metric names, kept, and never confused."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectors.fetch import new_session
from collectors.local_probe import PREFIX_BYTES, recognise
from collectors.local_services import SERVICES, Found, LocalServices, Service, probe
from db.scrape_settings import GlobalConfig
from tests.fakes_pages import Page, serving
from tests.free_port import free_port
from tests.genuine_node_exporter import node_exporter

FIXTURES = Path(__file__).parents[1] / "fixtures"
SCRAPE = GlobalConfig(scrape_interval=5.0)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def on(port: int, *names: str) -> list[Service]:
    """The known services of these names (all: none given), looked for on one port only."""
    return [replace(service, ports=(port,)) for service in SERVICES if not names or service.name in names]


async def look(services: Sequence[Service], **arguments: Any) -> list[Found]:
    async with new_session() as session:
        return await probe(session, services=services, **{"timeout_seconds": 2.0, **arguments})


@pytest.mark.parametrize(
    ("page", "service"),
    [
        ('# HELP vllm:x x\npython_info 1\nvllm:num_requests_running{model="a"} 0.0\n', "vllm"),
        ('sglang:token_usage{tp_rank="0"} 0.0\n', "sglang"),
        ("llamacpp:prompt_tokens_total 5\n", "llamacpp"),
        ("tgi_queue_size 0\n", "tgi"),
        ('nv_inference_count{model="m",version="1"} 3\n', "triton"),
        ("ray_node_cpu_utilization 1\nray_vllm_num_requests_running 1\n", "ray"),
        ('DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n', "dcgm"),
        ("go_threads 5\nnode_load1 0.5\n", "node"),
        ("trtllm_num_requests_running 1\n", "trtllm"),
        ("num_requests_running 1\ngpu_cache_usage_perc 0\n", "nim"),
        ("litellm_spend_metric_total 1\n", "litellm"),
        ("nvidia_smi_gpu_info 1\n", "nvidia_gpu_exporter"),
        ("amd_gpu_gfx_activity 3\n", "amd_gpu"),
    ],
)
def test_a_page_is_recognised_by_its_names(page: str, service: str) -> None:
    found = recognise(page.encode())

    assert found is not None
    assert found.name == service


@pytest.mark.parametrize(
    "page",
    [
        "",
        "go_threads 5\npromhttp_requests_total 1\n",
        "<html>vllm: node_load1</html>",
        "# HELP node_load1 1m load\n# TYPE node_load1 gauge\n",
        "the node_load1 5\n",
        "ray_ban glasses\n",
    ],
)
def test_other_pages_are_not(page: str) -> None:
    assert recognise(page.encode()) is None


@pytest.mark.parametrize(
    ("page", "service"),
    [
        ("node_exporter/e2e-output.prom", "node"),
        ("dcgm/a100-mig-mixed.prom", "dcgm"),
        ("vllm-live/1795257040885.prom", "vllm"),
        ("sglang/sglang-0.5.23-collector.prom", "sglang"),
        ("triton/tensorrtllm_backend-readme.prom", "triton"),
        ("litellm/litellm-1.109.1-logger.prom", "litellm"),
        ("ray/ray-serve-2.60.0.prom", "ray"),
        ("nvidia-smi/nvidia-h200__590.48.01.load.metrics.prom", "nvidia_gpu_exporter"),
    ],
)
def test_real_pages_are_recognised_by_their_beginning(page: str, service: str) -> None:
    found = recognise((FIXTURES / page).read_bytes()[:PREFIX_BYTES])

    assert found is not None
    assert found.name == service


@pytest.mark.server
def test_the_real_node_exporter_is_recognised() -> None:
    with node_exporter() as exporter:
        assert recognise(exporter.page().text.encode()) == next(s for s in SERVICES if s.name == "node")


@pytest.mark.parametrize(
    ("path", "page", "service"),
    [
        ("/metrics", "vllm:x 1\n", "vllm"),
        ("/v1/metrics", "num_requests_running 1\n", "nim"),
        ("/prometheus/metrics", "trtllm_x 1\n", "trtllm"),
        ("/metrics", "sglang:x 1\n", "sglang"),  # on another service's port
    ],
)
def test_services_that_share_a_port_are_told_apart(path: str, page: str, service: str) -> None:
    async def work() -> None:
        async with serving() as server:
            server.by_path[path] = Page(page)
            found = await look(on(server.port))

            assert [(item.service, item.job, item.url, item.note) for item in found] == [
                (service, service, f"{server.url}{path}", "")
            ]

    run(work())


@pytest.mark.parametrize(
    ("names", "pages", "note"),
    [
        (["vllm"], {"/metrics": Page("<html>hello</html>", "text/html")},
         "answers, but /metrics is not an exporter page"),
        (["vllm"], {}, "answers, but /metrics is not an exporter page"),
        (["sglang"], {}, "answers, but /metrics is not an exporter page (SGLang needs --enable-metrics)"),
        (["vllm"], {"/metrics": Page("my_app_total 5\n")},
         "answers with metrics of an unknown service; to scrape it, add it to scrape_configs"),
        (["litellm"], {"/metrics/": Page("no", status=401)},
         "asks for credentials; to scrape it, add it to scrape_configs with authorization"),
        (["vllm"], {"/metrics": Page(status=302, headers={"Location": "/b"}), "/b": Page("vllm:x 1\n")},
         "answers, but /metrics is not an exporter page"),
    ],
)  # fmt: skip
def test_what_answers_without_known_metrics_is_listed_and_not_scraped(
    names: list[str], pages: dict[str, Page], note: str
) -> None:
    async def work() -> None:
        async with serving() as server, new_session() as session:
            server.by_path.update(pages)
            local = LocalServices(session, SCRAPE, services=on(server.port, *names), ray_file=None)
            assert not await local.refresh()

            assert [item.note for item in local.found()] == [f"port {server.port} {note}"]
            assert local.targets() == ()

    run(work())


def test_ollama_is_named_although_it_has_no_metrics() -> None:
    async def work() -> None:
        async with serving() as server:
            server.by_path["/api/version"] = Page('{"version": "0.12.3"}', "application/json")
            found = await look(on(server.port, "ollama"))
            assert [(item.service, item.job, item.note) for item in found] == [
                ("ollama", "", "Ollama 0.12.3 found; it exposes no metrics")
            ]

            server.by_path["/api/version"] = Page('{"version": "<b>evil</b>"}', "application/json")
            assert (await look(on(server.port, "ollama")))[0].note == "Ollama found; it exposes no metrics"

            server.by_path["/metrics"] = Page("ollama_requests_total 1\n")
            assert (await look(on(server.port, "ollama")))[0].job == "ollama"

    run(work())


def test_nothing_listening_is_silent_and_quick() -> None:
    async def work() -> None:
        started = time.perf_counter()
        services = [service for name in ("vllm", "node", "dcgm", "tgi") for service in on(free_port(), name)]

        assert await look(services, timeout_seconds=30) == []
        assert time.perf_counter() - started < 15

    run(work())


def test_a_service_that_hangs_is_given_up_in_time_and_said_so() -> None:
    async def work() -> None:
        async with serving(metrics=Page(hang=True)) as server:
            started = time.perf_counter()
            found = await look(on(server.port, "vllm"), timeout_seconds=0.3)

            assert time.perf_counter() - started < 30  # it hangs for a minute
            assert (
                found[0].note == f"port {server.port} takes connections, but /metrics did not answer in time"
            )
            assert found[0].silent

    run(work())


def test_a_service_that_speaks_something_else_is_said_so() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            found = await look(on(port, "vllm"))

            assert [item.note for item in found] == [f"port {port} answers, but does not speak HTTP"]

    run(work())


def test_only_the_beginning_of_a_huge_page_is_read() -> None:
    async def work() -> None:
        async with serving(metrics=Page("vllm:x 1\n" + "y" * 50_000_000)) as server:
            assert (await look(on(server.port, "vllm")))[0].service == "vllm"

            server.by_path["/metrics"] = Page("y" * PREFIX_BYTES + "\nvllm:x 1\n")
            assert (await look(on(server.port, "vllm")))[0].service == ""

    run(work())


def test_own_ports_are_never_asked() -> None:
    async def work() -> None:
        async with serving(metrics=Page("vllm:x 1\n")) as server, new_session() as session:
            local = LocalServices(
                session, SCRAPE, services=on(server.port), own_ports=[server.port], ray_file=None
            )
            await local.refresh()

            assert local.found() == ()
            assert server.asked == []

    run(work())


@asynccontextmanager
async def watching(port: int, *names: str, **arguments: Any) -> AsyncIterator[LocalServices]:
    async with new_session() as session:
        yield LocalServices(session, SCRAPE, services=on(port, *names), **{"ray_file": None, **arguments})


def test_a_found_service_becomes_a_target_with_the_usual_interval() -> None:
    async def work() -> None:
        async with serving(metrics=Page("vllm:x 1\n")) as server, watching(server.port) as local:
            assert await local.refresh()
            target = local.targets()[0]

            assert (target.job, target.url) == ("vllm", f"{server.url}/metrics")
            assert target.labels == (("instance", f"127.0.0.1:{server.port}"), ("job", "vllm"))
            assert (target.interval_seconds, target.timeout_seconds) == (5, 5)
            assert not target.config.follow_redirects

    run(work())


def test_a_service_that_starts_later_appears_and_one_that_stops_stays() -> None:
    async def work() -> None:
        port = free_port()
        async with watching(port, "vllm") as local:
            assert not await local.refresh()
            assert local.targets() == ()
            async with serving(port, metrics=Page("vllm:x 1\n")):
                assert await local.refresh()
            for _ in range(10):
                assert not await local.refresh()

            assert [target.job for target in local.targets()] == ["vllm"]
            assert [item.service for item in local.found()] == ["vllm"]

    run(work())


def test_a_known_service_is_asked_seldom_and_its_successor_on_the_port_is_noticed() -> None:
    async def work() -> None:
        async with (
            serving(metrics=Page("vllm:x 1\n")) as server,
            watching(server.port, "vllm", "sglang") as local,
        ):
            await local.refresh()
            server.by_path["/metrics"] = Page("sglang:x 1\n")
            rounds = 0
            while not await local.refresh():
                rounds += 1
                assert rounds < 10

            assert [target.job for target in local.targets()] == ["sglang"]
            assert rounds > 3
            assert server.asked.count("/metrics") == 2

    run(work())


def test_it_looks_again_sooner_while_something_is_silent() -> None:
    async def work() -> None:
        async with serving(metrics=Page(hang=True)) as server, watching(server.port, "vllm") as local:
            await local.refresh()
            soon = local.interval_seconds
            server.by_path["/metrics"] = Page("vllm:x 1\n")
            await local.refresh()

            assert soon < local.interval_seconds == 15
            assert [target.job for target in local.targets()] == ["vllm"]

    run(work())


def test_the_port_that_ray_chose_is_read_from_its_file(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "prom_metrics_service_discovery.json"
        async with serving(metrics=Page("ray_node_cpu_count 8\n")) as server:
            elsewhere = "203.0.113.7:8080"
            file.write_text(
                json.dumps(
                    [
                        {
                            "labels": {"job": "ray"},
                            "targets": [f"127.0.0.1:{server.port}", elsewhere, "x", ":1"],
                        }
                    ]
                )
            )
            async with watching(free_port(), "ray", ray_file=file) as local:
                await local.refresh()

                assert [target.url for target in local.targets()] == [f"{server.url}/metrics"]
                assert [item.address for item in local.found()] == [("127.0.0.1", server.port)]

    run(work())


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '[{"targets": 5}]', "[" * 100_000, '[5, {"targets": [null]}]']
)
def test_a_strange_file_in_rays_place_does_no_harm(tmp_path: Path, content: str) -> None:
    async def work() -> None:
        (tmp_path / "ray.json").write_text(content)
        async with watching(free_port(), "ray", ray_file=tmp_path / "ray.json") as local:
            assert not await local.refresh()
            assert local.found() == ()

    run(work())
