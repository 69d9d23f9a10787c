"""Programs in Slurm's place: what they print, how they fail, and that none outlives its question."""

import os
import stat
from pathlib import Path

import pytest

from collectors.slurm_commands import OptionRefused, SlurmCommands, TooMuchOutput
from collectors.types import CollectFailed, Unsupported


def commands(folder: Path, script: str, **options: float) -> SlurmCommands:
    """`squeue` is this shell script."""
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environ = {"PATH": f".:{folder}", "SQUEUE_FORMAT": "%i", "SLURM_CONF": "/etc/x", "SECRET": "y"}
    made = SlurmCommands(environ, folders=(), **options)  # type: ignore[arg-type]
    made.begin()
    return made


def test_it_runs_without_a_shell_in_a_small_environment(tmp_path: Path):
    output = commands(tmp_path, 'env; printf "<%s>" "$@"').run("squeue", "a b; $(id)", "'")
    text = output.decode()
    assert text.endswith("<a b; $(id)><'>")
    assert "LC_ALL=C\n" in text
    assert "SLURM_TIME_FORMAT=%s\n" in text
    assert "SLURM_CONF=/etc/x\n" in text
    assert "SQUEUE_FORMAT" not in text
    assert "SECRET" not in text


def test_a_program_in_the_working_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    commands(tmp_path, "echo bad")
    monkeypatch.chdir(tmp_path)
    lookup = SlurmCommands({"PATH": ".:"}, folders=())
    lookup.begin()
    with pytest.raises(Unsupported, match="no squeue on the PATH"):
        lookup.run("squeue")


def test_a_program_off_the_path_is_found_where_sites_put_it(tmp_path: Path):
    commands(tmp_path, "echo found")
    lookup = SlurmCommands({}, folders=(str(tmp_path),))
    lookup.begin()
    assert lookup.run("squeue") == b"found\n"


@pytest.mark.parametrize(
    ("told", "kind", "said"),
    [
        ("squeue: unrecognized option '--json'", OptionRefused, "does not know what it was asked"),
        ("squeue: fatal: JSON plugin load failure", OptionRefused, "does not know what it was asked"),
        ("squeue: fatal: Could not establish a configuration source", Unsupported, "set SLURM_CONF"),
        (
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            CollectFailed,
            "slurmctld does not answer squeue: slurm_load_jobs error: Unable to contact slurm controller",
        ),
        (
            "slurm_load_jobs error: Access/permission denied",
            CollectFailed,
            "let the user that runs Strata see",
        ),
        ("error: Munge encode failed: Failed to access", CollectFailed, "is munged running"),
        ("squeue: a\nsqueue: \x1b[31mlast\x1b[0m", CollectFailed, r"squeue: squeue:  \[31mlast \[0m"),
        ("", CollectFailed, "squeue: exit status 3 and no reason"),
    ],
)
def test_a_failure_is_one_sentence_with_its_mend(tmp_path: Path, told: str, kind: type[Exception], said: str):
    (tmp_path / "told").write_text(told)
    with pytest.raises(kind, match=said) as raised:
        commands(tmp_path, f"cat {tmp_path / 'told'} >&2; exit 3").run("squeue")
    assert str(raised.value).isprintable()


def test_a_controller_that_hangs_is_left_and_its_question_ended(tmp_path: Path):
    (tmp_path / "pid").touch()
    asked = commands(tmp_path, f"echo $$ >{tmp_path / 'pid'}; printf x; exec sleep 600", seconds=0.5)
    with pytest.raises(CollectFailed, match=r"did not answer within 0\.5 s: slurmctld is down"):
        asked.run("squeue")
    if said := (tmp_path / "pid").read_text():
        assert not Path(f"/proc/{said.strip()}").exists()


def test_the_time_is_of_the_whole_reading(tmp_path: Path):
    times = iter([0.0, 100.0, 100.0, 100.0])
    asked = commands(tmp_path, "exec sleep 600", seconds=9.5)
    asked.clock = lambda: next(times)
    asked.begin()
    with pytest.raises(CollectFailed, match=r"within 9\.5 s"):
        asked.run("squeue")


def test_an_answer_without_end_is_cut_off(tmp_path: Path):
    with pytest.raises(TooMuchOutput, match="more than 1 MB"):
        commands(tmp_path, "exec cat /dev/zero", max_bytes=1 << 20).run("squeue")


def test_much_on_stderr_blocks_nothing(tmp_path: Path):
    script = "head -c 1000000 /dev/zero >&2; echo done"
    assert commands(tmp_path, script).run("squeue") == b"done\n"


def test_a_file_that_is_no_program_is_told(tmp_path: Path):
    asked = commands(tmp_path, "")
    (tmp_path / "squeue").write_bytes(os.urandom(4))
    with pytest.raises(CollectFailed, match=r"squeue cannot be run: Exec format error"):
        asked.run("squeue")
