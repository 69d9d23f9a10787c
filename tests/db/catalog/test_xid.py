"""XIDs in words: the classes that operators act on, and codes that nobody knows."""

from collections import Counter

import pytest

from db.catalog.xid import catalogue, explain


@pytest.mark.parametrize(
    ("code", "kind", "severity"),
    [
        (13, "application", "warning"),
        (31, "application", "warning"),
        (43, "ignore", "info"),
        (45, "check", "warning"),
        (48, "reset_gpu", "critical"),
        (63, "ignore", "info"),
        (64, "reset_gpu", "critical"),
        (54, "check", "critical"),
        (74, "check", "critical"),
        (79, "reboot_node", "critical"),
        (94, "restart_app", "warning"),
        (95, "reset_gpu", "critical"),
        (119, "reset_gpu", "critical"),
        (145, "check", "critical"),
        (154, "check", "critical"),
        (167, "unknown", "warning"),
        (1, "contact_support", "critical"),
    ],
)
def test_the_well_known_ones_are_classed_as_nvidia_does(code, kind, severity):
    xid = explain(code)
    assert (xid.code, xid.kind, xid.severity) == (code, kind, severity)


def test_a_gpu_off_the_bus_says_so_and_what_to_do():
    xid = explain(79)
    assert xid.description == "GPU has fallen off the bus"
    assert xid.mnemonic == "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"
    assert "reboot" in xid.action
    assert "support" in xid.investigate


@pytest.mark.parametrize("code", [0, -1, 173, 999, 2**63])
def test_a_code_outside_the_catalogue_is_unknown_and_never_guessed(code):
    xid = explain(code)
    assert (xid.code, xid.kind, xid.mnemonic) == (code, "unknown", "")
    assert "dmesg" in xid.action


def test_every_code_has_a_description_and_a_sentence_and_none_of_nvidias_action_codes():
    assert len(catalogue()) == 172
    for xid in catalogue().values():
        assert xid.description
        assert "\\n" not in xid.mnemonic
        for words in (xid.action, xid.investigate):
            assert not words or words.endswith(".")
            assert not any(code in words for code in ("WORKFLOW", "CONTACT_", "RESTART_", "RESET_", "CHECK_"))


def test_classes_are_counted_as_in_the_source():
    counts = Counter(xid.kind for xid in catalogue().values())
    assert counts == {
        "contact_support": 62,
        "restart_app": 41,
        "application": 7,
        "ignore": 21,
        "reset_gpu": 15,
        "check": 13,
        "reboot_node": 2,
        "unknown": 11,
    }
