import pytest

from db.engine import open_state
from db.processes import beat
from db.processes import report as process_report
from tests.stores import Box, collector_report, many_targets, report
from tests.views.pages import NOW, frame, markup, words

ERROR = "the page turned malformed at line 4,000: expected a value after 'x'"


def table(page):
    return frame(page, "url")


def test_before_anything_is_configured_it_says_what_to_do(site):
    page = site.page("sources")
    assert not page.exception
    assert "nothing has been collected yet" in words(page)
    assert "No process has reported yet." in words(page)


def test_every_target_and_collector_has_a_row(site):
    Box(site.store, gpus=0).fill(NOW - 10_000, NOW)
    site.store.write(
        [],
        [
            report("node", "b:9100", NOW, state="down", error=ERROR, last_success_ms=NOW - 300_000),
            report("node", "c:9100", NOW - 600_000),
            report("node", "d:9100", NOW, state="waiting", last_attempt_ms=None, last_success_ms=None),
            collector_report("other", NOW, state="suppressed", note="b:9100 reports this host"),
        ],
    )
    page = site.page("sources")
    assert not page.exception
    rows = table(page).set_index(["job", "instance"])
    assert rows["state"].to_dict() == {
        ("node", "b:9100"): "■ Down",
        ("node", "c:9100"): "▲ Stale",
        ("node", "d:9100"): "○ Waiting",
        ("host", "box-1"): "● Up",
        ("vllm", "127.0.0.1:8000"): "● Up",
        ("other", "box-1"): "◆ Covered",
        ("nvml", "box-1"): "◇ Unsupported",
    }
    assert rows.loc[("node", "b:9100"), "error"] == ERROR
    assert rows.loc[("node", "b:9100"), "success"] == "5 min ago"
    assert rows.loc[("node", "d:9100"), "success"] == "never"
    assert rows.loc[("vllm", "127.0.0.1:8000"), "duration"] == 4.3
    assert rows.loc[("vllm", "127.0.0.1:8000"), "samples"] == 1204
    assert "driver" in rows.loc[("nvml", "box-1"), "note"]


def test_a_thousand_rows_and_their_count_line(site):
    many_targets(site.store, 1_000, NOW, down=(1, 2, 3))
    page = site.page("sources")
    assert not page.exception
    assert len(table(page)) == 1_000
    assert ":red[■] **3** of 1,000 down · :green[●] **997** up" in words(page)


@pytest.mark.parametrize(
    ("query", "count"), [({"state": "Down"}, 3), ({"state": "Up"}, 7), ({"job": "node"}, 10)]
)
def test_filters_are_in_the_link(site, query, count):
    many_targets(site.store, 10, NOW, down=(1, 2, 3))
    site.store.write([], [report("other", "z", NOW, state="waiting", last_success_ms=None)])
    page = site.page("sources", **query)
    assert not page.exception
    assert len(table(page)) == count


def test_reasons_are_readable_in_full_but_not_endless(site):
    long = "the server answered 500 " + "and explained at length " * 6
    reports = [report("node", f"h{n}:9100", NOW, state="down", error=f"{long}{n}") for n in range(9)]
    site.store.write([], reports)
    text = words(site.page("sources"))
    assert text.count("the server answered 500") == 5
    assert f"node · h0:9100: {long}0" in text
    assert "and 4 more, at the top of the table" in text


def test_a_filter_that_leaves_nothing_says_so(site):
    many_targets(site.store, 3, NOW)
    page = site.page("sources", state="Waiting")
    assert "No source matches" in words(page)


def test_hostile_rows_are_plain_text(site):
    hostile = "<img src=x onerror=alert(1)> **x** :red[y]"
    site.store.write([], [report(hostile, hostile, NOW, error=hostile, note=hostile, state="down")])
    page = site.page("sources")
    assert not page.exception
    assert table(page)["error"].tolist() == [hostile]
    assert "onerror" not in markup(page)


def test_processes_say_which_is_down_and_how_often_it_came_back(site, tmp_path):
    state = open_state(tmp_path / "state.db")
    beat(state, "collect", pid=11, started_ms=NOW - 60_000, now_ms=NOW - 1_000)
    process_report(
        state, "collect", status="restarting", pid=None, restarts=3, detail="ended by signal 9", now_ms=NOW
    )
    beat(state, "web", pid=12, started_ms=NOW - 60_000, now_ms=NOW - 1_000)
    state.dispose()
    text = words(site.page("sources"))
    assert ":red[■] Restarting" in text
    assert "Collectors\nlast heard 1 s ago · restarted 3 times · ended by signal 9" in text
    assert "Web\npid 12 · started 1 min ago" in text


def test_what_discovery_and_configuration_say_is_told_beside_the_table_and_not_counted(site):
    broken = "**not** JSON: <b>line 1</b>"
    site.store.write(
        [],
        [
            report("vllm", "a:8000", NOW),
            report(
                "prometheus_config",
                "1",
                NOW,
                kind="config",
                note="prometheus.yml:7: 'remote_write' is not used",
            ),
            report("pool", "targets.json", NOW, kind="discovery", state="down", error=broken),
            report(
                "ollama",
                "127.0.0.1:11434",
                NOW,
                kind="discovery",
                state="unsupported",
                note="exposes no metrics",
            ),
        ],
    )
    page = site.page("sources")
    assert not page.exception
    assert table(page)["instance"].tolist() == ["a:8000"]
    assert "**1** of 1 up" in words(page)
    texts = [text.value for text in page.text]
    assert "prometheus.yml:7: 'remote_write' is not used" in texts
    assert f"pool · targets.json: {broken}" in texts
    assert "ollama · 127.0.0.1:11434: exposes no metrics" in texts
    assert ":orange[▲] Not used" in markup(page)
