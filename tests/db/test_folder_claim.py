"""A data folder is held by one process of a kind."""

import os
import subprocess
import sys

import pytest

from db.folder_claim import FolderTaken, claimed_folder

_HOLD = """
import pathlib, sys
from db.folder_claim import claimed_folder
with claimed_folder(pathlib.Path(sys.argv[1]), 'up'):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_up_on_one_folder_is_refused_with_the_holders_pid(tmp_path):
    data = tmp_path / "new" / "data"
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderTaken, match=rf"pid {holder.pid}\).*--data"), claimed_folder(data, "up"):
            pass
        holder.kill()
    with claimed_folder(data, "up"):  # however the holder ended
        assert (data / "up.lock").read_text() == str(os.getpid())


def test_children_do_not_inherit_the_claim(tmp_path):
    with claimed_folder(tmp_path, "up"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with claimed_folder(tmp_path, "up"):
            pass
    finally:
        child.communicate(b"\n")


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    data = tmp_path / "file"
    data.write_text("")
    with (
        pytest.raises(FolderTaken, match=r"data folder .*/file cannot be used: .*--data"),
        claimed_folder(data, "up"),
    ):
        pass


def test_processes_of_another_kind_hold_it_too(tmp_path):
    with claimed_folder(tmp_path, "up"), claimed_folder(tmp_path, "collect"):
        assert (tmp_path / "collect.lock").exists()
