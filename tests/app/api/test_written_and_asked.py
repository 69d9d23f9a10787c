"""What a real Prometheus remote-writes is what the API answers."""

import json
from typing import Any

import pytest

from tests.app.api.two_servers import Said, ask
from tests.browser.server import web_server
from tests.genuine_prometheus import prometheus

ASKED = ("up", "prometheus_build_info", "count by (job, instance) ({job='itself'})", "up[2s]")


@pytest.mark.server
def test_both_say_the_same_of_what_was_scraped(tmp_path):
    with web_server(tmp_path / "strata") as server:
        config = tmp_path / "prometheus.yml"
        targets = tmp_path / "targets.json"
        targets.write_text("[]")
        jobs = [{"job_name": "itself", "file_sd_configs": [{"files": [str(targets)]}]}]
        pace = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
        sent_to = [{"url": f"{server.url}/api/v1/write"}]
        config.write_text(json.dumps({"global": pace, "scrape_configs": jobs, "remote_write": sent_to}))
        with prometheus(config, tmp_path) as genuine:
            target = genuine.url.removeprefix("http://")
            targets.write_text(json.dumps([{"targets": [target], "labels": {"path": 'a"b\\c\nd'}}]))

            def newest() -> Any:
                result = ask(server.url, "query", [("query", "max(timestamp(up))")]).data["result"]
                return result and count(server.url) > 8 and float(result[0]["value"][1])

            # All before the newest sample has arrived: one shard sends in the order of scraping.
            at = f"{genuine.eventually(newest) - 0.3:.3f}"
            for text in ASKED:
                ours, theirs = (
                    ask(url, "query", [("query", text), ("time", at)]) for url in (server.url, genuine.url)
                )
                assert comparable(ours) == comparable(theirs), text
                assert ours.data["result"]


def count(url: str) -> int:
    result = ask(url, "query", [("query", "count_over_time(up[1m])")]).data["result"]
    return int(result[0]["value"][1]) if result else 0


def comparable(said: Said) -> Any:
    result = said.data["result"]
    return said.data["resultType"], sorted(result, key=lambda one: sorted(one["metric"].items()))
