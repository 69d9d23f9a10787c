"""The command line as people and scripts meet it: one sentence and an exit status, never a traceback."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from app.__main__ import main
from app.commands.failure import CommandError, guarded
from app.commands.programs import command_line
from db.engine import open_state
from db.errors import StoreUnreachable
from db.processes import read_processes, report
from tests.free_port import free_port

HEAVY = ("streamlit", "sqlalchemy", "pandas", "numpy", "aiohttp", "plotly", "rich", "alembic")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder and a home of one's own: no strata.yaml of this machine is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "STRATA_CONFIG", "STRATA_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["upp"], "No such command 'upp'. Did you mean 'up'? (see strata --help)"),
        (["up", "--nope"], "No such option: --nope (see strata up --help)"),
        (["up", "--port", "0"], "Invalid value for '--port'"),
        (["up", "--port", "x"], "Invalid value for '--port'"),
        (["service"], "Missing command (see strata service --help)"),
        (["collect", "--sink", "kafka"], "Invalid value for '--sink'"),
        (["web", "--config", "missing.yaml"], "missing.yaml: cannot be read"),
        (["up", "--config", "bad.yaml"], "bad.yaml:2: unknown key 'prot'"),
        (["alert", "--data", "line\nbreak\x1b[2J", "--config", "a\x1b[2Jb"], "a\\u001b[2Jb"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_status_2(place, capsys, words, said):
    (place / "bad.yaml").write_text("web:\n  prot: 1\n")
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("strata: ")
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1


def test_without_a_command_it_helps(capsys):
    assert main([]) == 0
    assert "collect" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("strata 0.")


def test_help_needs_none_of_the_heavy_libraries():
    code = f"import sys, app.__main__; print([name for name in {HEAVY} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_a_taken_port_ends_up_before_anything_starts(place, capsys):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        port = holder.getsockname()[1]
        assert main(["up", "--port", str(port)]) == 1
    assert f"port {port} on 127.0.0.1 is taken" in capsys.readouterr().err
    assert not (place / ".local/share/strata/state.db").exists()


def test_jobs_that_cannot_be_used_end_up_before_anything_starts(place, capsys):
    (place / "prometheus.yml").write_text("scrape_configs:\n- static_configs: []\n")
    assert main(["up", "--prometheus-config", "prometheus.yml"]) == 2
    printed = capsys.readouterr().err
    assert "prometheus.yml:2" in printed
    assert len(printed.splitlines()) == 1
    assert not (place / ".local").exists()


def test_a_newer_database_ends_up_before_anything_starts(place, capsys):
    port = free_port()
    subprocess.run(command_line("alert", once=True, data=place / "data"), check=True, capture_output=True)
    with closing(sqlite3.connect(place / "data/state.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    done = subprocess.run(command_line("up", data=place / "data", port=port), capture_output=True, text=True)
    assert done.returncode == 1
    assert "newer Strata" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_one_round_of_alerts_reports_that_it_is_alive(place):
    # A process of its own: the command installs signal handlers.
    subprocess.run(command_line("alert", once=True, data=place / "data"), check=True, capture_output=True)
    state = open_state(place / "data/state.db")
    (process,) = read_processes(state)
    state.dispose()
    assert (process.name, process.state) == ("alert", "running")


def test_health_of_a_process_that_never_reported(place, capsys):
    assert main(["health", "collect", "--data", "data"]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not (place / "data").exists()


def test_health_of_a_process_that_beats_and_of_one_that_is_down(place, capsys):
    subprocess.run(command_line("alert", once=True, data=place / "data"), check=True, capture_output=True)
    assert main(["health", "alert", "--data", "data"]) == 0
    assert main(["health", "collect", "--data", "data"]) == 1
    assert "never reported" in capsys.readouterr().err
    state = open_state(place / "data/state.db")
    report(state, "alert", status="restarting", pid=None, restarts=1, detail="", now_ms=0)
    state.dispose()
    assert main(["health", "alert", "--data", "data"]) == 1
    assert "alert is restarting" in capsys.readouterr().err


def test_command_lines_leave_out_what_was_not_given(tmp_path):
    line = command_line("web", port=80, host=None, no_discover=False, once=True, data=tmp_path)
    assert line == (
        sys.executable,
        "-P",
        "-m",
        "app",
        "web",
        "--port",
        "80",
        "--once",
        "--data",
        str(tmp_path),
    )


def test_a_folder_named_like_our_packages_is_not_taken_for_them(place):
    for package in ("app", "db"):
        (place / package).mkdir()
        (place / package / "__init__.py").write_text("raise SystemExit('not ours')")
    done = subprocess.run([*command_line("web"), "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


class TestGuard:
    """What `guarded` makes of an error."""

    @staticmethod
    def end(error, environ):
        def command() -> int:
            raise error

        return guarded(command, environ)

    def test_a_refusal_keeps_its_status(self, capsys):
        assert self.end(CommandError("no such run", 2), {}) == 2
        assert capsys.readouterr().err == "strata: no such run\n"

    def test_a_store_error_is_a_sentence(self, capsys):
        assert self.end(StoreUnreachable("a.db: is not a database"), {}) == 1
        assert capsys.readouterr().err == "strata: a.db: is not a database\n"

    def test_ctrl_c_is_silent(self, capsys):
        assert self.end(KeyboardInterrupt(), {}) == 130
        assert capsys.readouterr().err == ""

    def test_the_unexpected_is_one_sentence_that_names_the_file_with_the_details(self, tmp_path, capsys):
        environ = {"HOME": str(tmp_path)}
        assert self.end(KeyError("x\ny"), environ) == 1
        details = tmp_path / ".local/state/strata/errors.log"
        said = capsys.readouterr().err
        assert said == f"strata: unexpected error: KeyError: 'x\\ny' (details in {details})\n"
        assert "test_commands.py" in details.read_text()
        assert details.stat().st_mode & 0o077 == 0

    def test_a_home_that_cannot_be_written_does_not_hide_the_error(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        assert self.end(ValueError("broken"), {"HOME": str(tmp_path / "file")}) == 1
        assert "unexpected error: ValueError: broken" in capsys.readouterr().err

    def test_debugging_shows_the_traceback(self, capsys):
        assert self.end(ValueError("broken"), {"STRATA_DEBUG": "1"}) == 1
        assert "Traceback" in capsys.readouterr().err

    def test_a_reader_that_has_seen_enough_is_no_error(self):
        code = (
            "import sys; from app.commands.failure import guarded\n"
            "def talk():\n"
            "    for number in range(100_000): print(number)\n"
            "    return 0\n"
            "sys.exit(guarded(talk, {}))"
        )
        reader, writer = os.pipe()
        with subprocess.Popen([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE) as talker:
            os.close(writer)
            os.read(reader, 10)
            os.close(reader)
            _, said = talker.communicate()
        assert (talker.returncode, said) == (1, b"")


def test_debug_variable_is_no_setting(place, monkeypatch):
    monkeypatch.setenv("STRATA_DEBUG", "1")
    assert main(["service", "install", "--dry-run"]) == 0


def test_json_stays_one_document_on_stdout(place, capsys):
    assert main(["service", "install", "--dry-run", "--json"]) == 0
    json.loads(capsys.readouterr().out)
