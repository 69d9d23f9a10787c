"""User and command of a GPU process, from a /proc that may hold anything."""

import os
import pwd
from pathlib import Path

import pytest

from collectors.nvml_processes import MAX_COMMAND_LENGTH, describe


def process(proc, pid=42, *, uid="0", name="python3", command_line=b""):
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "status").write_text(f"Name:\t{name}\nUmask:\t0022\nUid:\t{uid}\t1\t1\t1\n")
    (proc / str(pid) / "cmdline").write_bytes(command_line)
    return describe(pid, proc)


@pytest.mark.parametrize(
    ("command_line", "command"),
    [
        (b"/usr/bin/python3\0/home/bob/train.py\0--lr\0001e-4\0", "python3 train.py"),
        (
            b"python\0-m\0vllm.entrypoints.openai.api_server\0--api-key\0s3cret\0",
            "python -m vllm.entrypoints.openai.api_server",
        ),
        (b"/opt/v/bin/vllm\0serve\0meta-llama/Llama-3.1-8B\0--port\08000\0", "vllm serve Llama-3.1-8B"),
        (b"torchrun\0--nproc-per-node=8\0train.py\0", "torchrun"),
        (b"VLLM::Worker_TP0\0\0\0\0", "VLLM::Worker_TP0"),
        (b"a\0b\0c\0d\0", "a b c"),
        (b"", "python3"),  # a kernel thread or a zombie: its name
    ],
)
def test_command_is_the_first_plain_words_without_directories(tmp_path, command_line, command):
    assert process(tmp_path, command_line=command_line).command == command


def test_hostile_text_is_bounded_and_printable(tmp_path):
    owner = process(tmp_path, command_line=b'evil\nname{"}\x1b[31m\xff\xfe' + b"x" * 10_000 + b"\0")
    assert len(owner.command) == MAX_COMMAND_LENGTH
    assert owner.command.isprintable()
    assert owner.command.startswith('evilname{"}[31m')


def test_user_is_the_real_one_and_a_number_where_it_has_no_name(tmp_path):
    assert process(tmp_path, 1, uid=str(os.getuid())).user == pwd.getpwuid(os.getuid()).pw_name
    assert process(tmp_path, 2, uid="3999999999").user == "3999999999"


def test_a_process_that_ended_has_neither(tmp_path):
    owner = describe(4242, tmp_path)
    assert (owner.user, owner.command) == ("", "")


def test_our_own_process_is_found_in_the_real_proc():
    owner = describe(os.getpid(), Path("/proc"))
    assert owner.user == pwd.getpwuid(os.getuid()).pw_name
    assert owner.command
