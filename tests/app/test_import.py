"""`strata import openmetrics` as a user runs it, beside promtool's own import of the same file."""

import gzip
import json
import random
import re
import struct
import subprocess
import time
from contextlib import closing

import pytest

from app.__main__ import main
from app.commands.programs import command_line
from db.labels import labels_from
from db.records import MetricMetadata
from db.store import SampleStore
from tests.needs import require_program

PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')
TEXT = "# HELP foo What it says.\n# TYPE foo gauge\nfoo 1 1700000000\nfoo 2 1700000015.5\nbar 3 1700000000\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "STRATA_CONFIG", "STRATA_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def stored(folder):
    with closing(SampleStore.open(folder / "samples.db")) as store:
        return {
            (series.labels, at_ms): struct.pack("<d", value)
            for series in store.select([], 0, 2**60)
            for at_ms, value in zip(series.timestamps.tolist(), series.values.tolist(), strict=True)
        }


def test_what_it_did_is_said_and_stored(place, capsys):
    (place / "old.om").write_text(TEXT + "# EOF\n")
    assert main(["import", "openmetrics", "old.om", "--data", "data"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "imported 3 samples of 2 series, 2023-11-14T22:13:20Z to 2023-11-14T22:13:35Z, in "
    )
    assert "storage.retention (15d)" in said
    first = stored(place / "data")
    assert len(first) == 3
    assert main(["import", "openmetrics", "old.om", "--data", "data", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done.pop("duration_seconds") >= 0
    assert done == {
        "file": "old.om",
        "samples": 3,
        "series": 2,
        "start_timestamp_seconds": 1700000000.0,
        "end_timestamp_seconds": 1700000015.5,
        "older_than_retention": True,
    }
    assert stored(place / "data") == first
    with closing(SampleStore.open(place / "data" / "samples.db")) as store:
        assert store.metadata() == [MetricMetadata("foo", "gauge", "What it says.", "")]


def test_stdin_and_gzip(place):
    now = time.time() - 60
    body = gzip.compress(f"foo 1 {now:.3f}\n# EOF\n".encode())
    command = [*command_line("import"), "openmetrics", "-", "--data", str(place / "data")]
    done = subprocess.run(command, input=body, capture_output=True, check=True)
    assert done.stdout.startswith(b"imported 1 samples of 1 series")
    assert b"retention" not in done.stdout
    assert len(stored(place / "data")) == 1


def test_a_file_without_samples(place, capsys):
    (place / "empty.om").write_text("# EOF\n")
    assert main(["import", "openmetrics", "empty.om", "--data", "data"]) == 0
    assert capsys.readouterr().out == "the file holds no samples\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT + "foo x 5\n# EOF\n", "old.om:6: expected a number as value, got 'x'; the 3 samples before"),
        (
            "foo 1\n# EOF\n",
            "old.om:1: 'foo' has no timestamp; write it in seconds after the value; nothing was",
        ),
        (
            TEXT,
            "old.om:6: the file does not end with # EOF: it may have been cut short; the 3 samples before",
        ),
        ("foo\x1b[2J 1 5\n# EOF\n", "old.om:1: "),
        (None, "old.om: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_one_line_and_status_2(place, capsys, text, said):
    if text is not None:
        (place / "old.om").write_text(text)
    assert main(["import", "openmetrics", "old.om", "--data", "data", "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"strata: {said}")
    assert len(printed.err.splitlines()) == 1
    assert "\x1b" not in printed.err
    assert (place / "data").exists() == (text is not None)


def test_nothing_is_imported_to_where_nobody_reads(place, capsys):
    (place / "old.om").write_text(TEXT + "# EOF\n")
    (place / "strata.yaml").write_text("store:\n  prometheus:\n    query_url: http://127.0.0.1:9\n")
    assert main(["import", "openmetrics", "old.om", "--config", "strata.yaml", "--data", "data"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "store.prometheus is set" in line
    assert "the engine's own tool" in line
    assert not (place / "data" / "samples.db").exists()


def test_a_folder_is_no_file(place, capsys):
    assert main(["import", "openmetrics", ".", "--data", "data"]) == 2
    assert "cannot be read: Is a directory" in capsys.readouterr().err


def genuine_import(path, folder):
    """What promtool makes of a file: (labels, ms) -> bits."""
    promtool = require_program("promtool")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(path), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "wal").mkdir()  # else the dump takes it for no database
    done = subprocess.run([promtool, "tsdb", "dump", str(folder)], check=True, capture_output=True, text=True)
    found = {}
    for line in done.stdout.splitlines():
        text, value, at_ms = line.rsplit(" ", 2)
        labels = labels_from((name, json.loads(said)) for name, said in PAIR.findall(text))
        found[labels, int(at_ms)] = struct.pack("<d", float(value))
    return found


@pytest.mark.server
def test_it_stores_what_promtool_stores(place):
    """Three hours in page order, over two of promtool's blocks."""
    draw = random.Random(5)
    keys = [f'm{n % 7}_total{{path="/a b\\"{n}",le="{n / 8}"}}' for n in range(40)]
    lines = [
        f"{key} {draw.choice([repr(draw.random()), draw.randrange(10**17), '+Inf', '1e-7'])} {at}.{n:03d}"
        for at in range(1_700_000_000, 1_700_010_800, 60)
        for n, key in enumerate(keys)
        if draw.random() < 0.9
    ]
    path = place / "file.om"
    path.write_text("\n".join(["# TYPE m0 counter", *lines, "# EOF\n"]))
    assert main(["import", "openmetrics", str(path), "--data", "data"]) == 0
    assert stored(place / "data") == genuine_import(path, place / "tsdb")
