"""`strata query` as a user runs it: a table, one JSON document, or one sentence."""

import json
import time
from contextlib import closing

import numpy as np
import pytest

from app.__main__ import main
from db.labels import labels_from
from db.records import SparseAppend
from db.store import SampleStore
from tests.remote_engines import scripted_engine, success

BEGIN_MS = 1_700_000_000_000
AT = ["--time", "1700000060"]
HOSTILE = 'a"b\\c\nd\x1b[2Je\u202e'


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STRATA_TIMEZONE", "Europe/Berlin")
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "STRATA_CONFIG", "STRATA_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    write(tmp_path / "data", {"__name__": "short", "job": "a"}, [1.5, 2.0, 1e-7])
    write(
        tmp_path / "data", {"__name__": "much_longer", "job": HOSTILE, "odd.name": "x"}, [np.nan, 1e6, 1e21]
    )
    return tmp_path


def write(data, labels, values, begin_ms=BEGIN_MS):
    data.mkdir(exist_ok=True)
    with closing(SampleStore.open(data / "samples.db")) as store:
        times = begin_ms + 30_000 * np.arange(len(values))
        store.write([SparseAppend([labels_from(labels)] * len(values), times, np.array(values))])


def run(capsys, *words):
    status = main(["query", "--data", "data", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_a_vector_is_a_table(place, capsys):
    status, said, complaint = run(capsys, '{__name__=~".+"}', *AT)
    assert (status, complaint) == (0, "")
    lines = sorted(said.splitlines())
    assert lines[0].startswith('much_longer{job="a\\"b\\\\c\\nd\\u001b[2Je\\u202e", "odd.name"="x"}  ')
    assert lines[1].startswith('short{job="a"} ')
    assert {len(line) for line in lines} == {len(lines[0])}
    assert [line.split()[-1] for line in lines] == ["1e+21", "1e-07"]
    assert "\x1b" not in said


def test_a_range_is_a_table_in_local_time(place, capsys):
    words = ["short", "--start", "2023-11-14T22:13:20Z", "--end", "1700000060", "--step", "30s"]
    status, said, _ = run(capsys, *words)
    assert status == 0
    assert said.splitlines() == [
        'short{job="a"}',
        "  2023-11-14T23:13:20+01:00    1.5",
        "  2023-11-14T23:13:50+01:00      2",
        "  2023-11-14T23:14:20+01:00  1e-07",
    ]


def test_samples_of_an_instant_query(place, capsys):
    status, said, _ = run(capsys, "short[45s]", *AT)
    assert status == 0
    assert [line.split()[-1] for line in said.splitlines()[1:]] == ["2", "1e-07"]


@pytest.mark.parametrize(("text", "said"), [("1 / 3", "0.3333333333333333\n"), ('"a\\nb"', "a\\nb\n")])
def test_scalar_and_string(place, capsys, text, said):
    assert run(capsys, text, *AT) == (0, said, "")


def test_nothing(place, capsys):
    assert run(capsys, "nobody", *AT) == (0, "no series\n", "")


def test_json_is_the_data_of_the_http_api(place, capsys):
    status, said, _ = run(capsys, "short", *AT, "--json")
    assert status == 0
    assert said.count("\n") == 1
    assert json.loads(said) == {
        "resultType": "vector",
        "result": [{"metric": {"__name__": "short", "job": "a"}, "value": [1700000060, "1e-07"]}],
    }
    status, said, _ = run(
        capsys, "short", "--json", "--start", "1700000000", "--end", "1700000060", "--step", "30"
    )
    assert json.loads(said)["result"][0]["values"] == [
        [1700000000, "1.5"],
        [1700000030, "2"],
        [1700000060, "1e-07"],
    ]


def test_a_range_without_a_step_has_a_useful_one(place, capsys):
    status, said, _ = run(capsys, "vector(1)", "--json", "--start", "1700000000", "--end", "1700086400")
    assert status == 0
    assert 200 < len(json.loads(said)["result"][0]["values"]) < 300


def test_times_before_now(place, capsys):
    write(place / "data", {"__name__": "fresh"}, [7.0], begin_ms=time.time_ns() // 1_000_000 - 3_600_000)
    assert run(capsys, "fresh", "--time=-59m")[1] == "fresh  7\n"
    assert run(capsys, "fresh", "--time", "-1h1m")[1] == "no series\n"
    assert run(capsys, "fresh", "--time", "now")[1] == "no series\n"
    assert "fresh\n" in run(capsys, "fresh", "--start", "-2h", "--step", "1m")[1]


def test_what_the_evaluator_remarks_goes_to_stderr(place, capsys):
    status, said, remark = run(capsys, "rate(short[5m])", *AT, "--json")
    assert status == 0
    assert json.loads(said)["resultType"] == "vector"
    assert remark.startswith("strata: PromQL info: metric might not be a counter")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["up{"], "1:4: parse error: unexpected end of input inside braces"),
        (["up", "--time", "soon"], "--time: 'soon' is no time; write Unix seconds, RFC 3339"),
        (["up", "--time", "-1x"], "--time: '-1x' is no time"),
        (["up", "--start", "x\x1b[2J"], "--start: 'x\\x1b[2J' is no time"),
        (["up", "--start", "0", "--end", "x"], "--end: 'x' is no time"),
        (["up", "--start", "0", "--end", "60", "--step", "x"], "--step: 'x' is no duration"),
        (["up", "--start", "0", "--end", "60", "--step", "0"], "--step has to be at least 1ms"),
        (["up", "--start", "60", "--end", "0"], "--end is before --start"),
        (["up", "--start", "0", "--end", "1e6", "--step", "1"], "exceeded maximum resolution of 11,000"),
        (["up", "--start", "0", "--time", "0"], "--time and --start exclude each other"),
        (["up", "--end", "0"], "give --start as well"),
        (["up", "--step", "5"], "give --start as well"),
        ([], "Missing argument 'EXPR'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_2(place, capsys, words, said):
    status, printed, complaint = run(capsys, *words)
    assert (status, printed) == (2, "")
    assert complaint.startswith("strata: ")
    assert said in complaint
    assert len(complaint.splitlines()) == 1
    assert "\x1b" not in complaint


def test_a_query_that_fails_is_status_1(place, capsys):
    write(place / "data", {"__name__": "short", "job": "b"}, [1.0, 2.0, 3.0])
    status, printed, complaint = run(capsys, "short * on () short", *AT)
    assert (status, printed) == (1, "")
    assert "many-to-many" in complaint
    assert len(complaint.splitlines()) == 1


def test_without_data_nothing_is_made(place, capsys):
    status = main(["query", "up", "--data", "elsewhere"])
    assert status == 1
    assert "elsewhere/samples.db does not exist; is --data the right folder?" in capsys.readouterr().err
    assert not (place / "elsewhere").exists()


def test_an_engine_is_asked_without_data_and_nothing_is_made(place, capsys):
    series = {"metric": {"__name__": "up"}, "value": [1.0, "3"]}
    with scripted_engine(lambda _: success({"resultType": "vector", "result": [series]})) as engine:
        status = main(["query", "up", "--data", "elsewhere", "--prometheus", engine.url])
    assert (status, capsys.readouterr().out) == (0, "up  3\n")
    assert not (place / "elsewhere").exists()


def test_one_long_label_does_not_widen_every_line(place, capsys):
    write(place / "data", {"__name__": "long", "text": "x" * 5_000}, [1.0])
    status, said, _ = run(capsys, "short or long", "--time", "1700000000")
    assert status == 0
    longest, other = sorted((len(line) for line in said.splitlines()), reverse=True)
    assert longest > 5_000
    assert other < 200
