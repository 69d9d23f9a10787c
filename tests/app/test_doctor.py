"""`strata doctor` as a user runs it: what is wrong, what targets lack, and an exit status for scripts."""

import json
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest

from app.__main__ import main
from db.engine import open_state
from db.labels import labels_from
from db.processes import beat
from db.records import DenseAppend
from db.store import SampleStore
from tests.stores import report

HOSTILE = "a\x1b[2J\nb"
NOVA = """\
exporters:
  nova:
    title: Nova
    detect: [nova_running]
    install: "Install Nova."
    signals:
      requests_running: {value: nova_running}
      kv_cache_usage: {value: nova_kv, enable: "start Nova with --kv-metrics"}
      requests_waiting: {value: nova_waiting, enable: "start Nova with --kv-metrics"}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "STRATA_CONFIG", "STRATA_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "nova.yaml").write_text(NOVA)
    (tmp_path / "strata.yaml").write_text("signal_files: [nova.yaml]\ndata: data\n")
    (tmp_path / "data").mkdir()
    return tmp_path


def fill(place, *, state="up", instances=("a:1",), error="", more=()):
    now_ms = time.time_ns() // 1_000_000
    with closing(SampleStore.open(place / "data/samples.db")) as store:
        for instance in instances:
            own = {"job": "nova", "instance": instance}
            labels = [labels_from(own, metric) for metric in ("nova_running", *more)]
            append = DenseAppend(instance, labels, now_ms - 1000, np.ones(len(labels)))
            store.write([append], [report("nova", instance, now_ms, state=state, error=error)])
    engine = open_state(place / "data/state.db")
    for name in ("collect", "web"):
        beat(engine, name, pid=1, started_ms=now_ms, now_ms=now_ms)
    engine.dispose()


def run(capsys, *words):
    status = main(["doctor", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_all_is_well(place, capsys):
    fill(place)
    status, said, complaint = run(capsys)
    assert (status, complaint) == (0, "")
    assert "ok       sources: 1 targets and collectors, none down" in said
    assert "ok       processes: collect, web are running" in said


def test_targets_that_lack_the_same_are_one_entry_with_its_mend(place, capsys):
    fill(place, instances=("a:1", "b:1", "c:1", "d:1"))
    said = run(capsys)[1]
    assert "Nova: 1 of 3 signals (nova a:1, nova b:1, nova c:1 and 1 more)" in said
    assert said.count("start Nova with --kv-metrics") == 1
    assert "KV-cache use, Requests waiting" in said


def test_a_change_that_targets_of_two_versions_need_is_said_once(place, capsys):
    fill(place, instances=("a:1",))
    fill(place, instances=("b:1",), more=("nova_waiting",))
    said = run(capsys)[1]
    assert "Nova: 1 to 2 of 3 signals (nova a:1, nova b:1)" in said
    assert "  - KV-cache use, Requests waiting (nova a:1)" in said
    assert "  - KV-cache use (nova b:1)" in said


def test_a_target_that_is_down_fails_with_its_reason(place, capsys):
    fill(place, state="down", error=f"refused {HOSTILE}")
    status, said, _ = run(capsys)
    assert status == 1
    assert "FAILED   sources: nova a:1 is down: refused a" in said
    assert "\x1b" not in said


def test_one_json_document(place, capsys):
    fill(place)
    status, said, _ = run(capsys, "--json")
    found = json.loads(said)
    assert status == 0
    assert {item["verdict"] for item in found["findings"]} <= {"ok", "warning"}
    [row] = found["coverage"]
    assert row["targets"] == [{"job": "nova", "instance": "a:1"}]
    assert (row["signals_had"], row["signals_known"]) == (1, 3)
    assert row["gaps"] == [
        {"signals": ["kv_cache_usage", "requests_waiting"], "mend": "start Nova with --kv-metrics"}
    ]


def test_a_folder_without_samples(place, capsys):
    status, said, _ = run(capsys, "--data", "elsewhere")
    assert status == 1
    assert "samples.db does not exist; start `strata up`, or give the right --data" in said
    assert not (place / "elsewhere").exists()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["samples.db", "state.db"])
@pytest.mark.parametrize(
    "statement", ["UPDATE alembic_version SET version_num = '0000'", "DROP TABLE alembic_version"]
)
def test_files_of_another_version_are_not_touched(place, capsys, name, statement):
    fill(place)
    with closing(sqlite3.connect(place / "data" / name)) as connection:
        connection.execute(statement)
        connection.commit()
    before = contents(place / "data")
    status, said, _ = run(capsys)
    assert status == 1
    assert (
        f"{name}: was written by another version (schema 0000" in said or f"{name}: holds nothing yet" in said
    )
    after = contents(place / "data")
    assert {key: value for key, value in after.items() if key.startswith(name)} == {
        key: value for key, value in before.items() if key.startswith(name)
    }


def test_an_engine_alone_is_no_reason_to_make_a_store(place, capsys):
    status, said, _ = run(capsys, "--prometheus", "http://127.0.0.1:1")
    assert status == 1
    assert "samples.db does not exist; start `strata up`" in said
    assert list((place / "data").iterdir()) == []


def test_a_damaged_store(place, capsys):
    fill(place)
    for path in (place / "data").glob("samples.db*"):
        path.unlink()
    (place / "data/samples.db").write_bytes(b"no database" * 1000)
    status, said, _ = run(capsys)
    assert status == 1
    assert "FAILED   samples: " in said


def test_nothing_runs(place, capsys):
    fill(place)
    engine = open_state(place / "data/state.db")
    for name in ("collect", "web"):
        beat(engine, name, pid=1, started_ms=1, now_ms=1)
    engine.dispose()
    status, said, _ = run(capsys)
    assert status == 1
    assert "FAILED   processes: none is running; start `strata up`" in said


def test_a_signal_file_that_cannot_be_used(place, capsys):
    (place / "nova.yaml").write_text("exporters: {nova: {titel: x}}")
    status, said, complaint = run(capsys)
    assert (status, said) == (2, "")
    assert complaint == f"strata: {place / 'nova.yaml'}:1: unknown key 'titel'; did you mean 'title'?\n"
