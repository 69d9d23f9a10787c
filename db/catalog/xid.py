"""What an XID means and what to do about it: NVIDIA's catalogue of GPU errors in an operator's words.

An XID is the number that the NVIDIA driver writes into the kernel's log, and that DCGM and NVML report. The
catalogue (`xid.json`; where it comes from: SOURCES.md beside it) has two actions in NVIDIA's own codes: what
to do at once, and what to look into afterwards. Here both become sentences, and the first decides the class,
by which rules and pages act. A code that is not in the catalogue is answered as unknown, never guessed.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

Class = Literal[
    "ignore", "application", "restart_app", "check", "reset_gpu", "reboot_node", "contact_support", "unknown"
]
Severity = Literal["info", "warning", "critical"]

_SEVERITY: Final[dict[Class, Severity]] = {
    "ignore": "info",
    "application": "warning",
    "restart_app": "warning",
    "check": "warning",
    "unknown": "warning",
    "reset_gpu": "critical",
    "reboot_node": "critical",
    "contact_support": "critical",
}
_AT_ONCE: Final[dict[str, tuple[Class, str]]] = {
    "": ("unknown", "NVIDIA's catalogue names no action for it."),
    "IGNORE": ("ignore", "Nothing to do for this one by itself."),
    "RESTART_APP": ("restart_app", "Restart the application that was running on the GPU."),
    "RESET_GPU": (
        "reset_gpu",
        "Stop what runs on the GPU and reset it (nvidia-smi --gpu-reset); reboot the machine if that fails.",
    ),
    "RESTART_BM": ("reboot_node", "Take the machine out of service and reboot it."),
    "RESTART_VM": ("reboot_node", "Restart the virtual machine that holds the GPU."),
    "CONTACT_SUPPORT": (
        "contact_support",
        "Take the GPU out of service and contact the vendor's support; it may have to be replaced.",
    ),
    "CHECK_MECHANICALS": ("check", "Check the GPU's power cables and its seat in the slot."),
    "CHECK_UVM": ("check", "Look for a fault of unified memory (UVM) in the kernel's log at the same time."),
    "UPDATE_SWFW": ("check", "Bring driver, firmware and vGPU software to versions that fit together."),
    "WORKFLOW_XID_45": (
        "check",
        "A clean-up after another error: follow the other XID of the same moment. Alone, restart the fabric "
        "manager.",
    ),
    "WORKFLOW_XID_48": (
        "reset_gpu",
        "A memory error that could not be corrected: stop what runs on the GPU and reset it, which brings "
        "the replaced row into use (look for XID 63 or 64 beside it).",
    ),
    "WORKFLOW_NVLINK_ERR": (
        "check",
        "An NVLink error: look at the link's error counters and at the GPU on its other end; reset both GPUs "
        "if work on them failed, and check the link's seat if it comes again.",
    ),
    "WORKFLOW_NVLINK5_ERR": (
        "check",
        "An NVLink 5 error: unit and status in the kernel's log line decide whether the GPU needs a reset.",
    ),
    "XID_154": (
        "check",
        "The driver's own advice changed: the log line says whether to reset the GPU, reboot or drain it "
        "(see also DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION).",
    ),
}
_AFTERWARDS: Final[dict[str, str]] = {
    "": "",
    "IGNORE": "",
    "IGNORE (sympathetic)": "It follows another XID; look into that one.",
    "N/A Informational only regarding another Xid": "It only tells about another XID; look into that one.",
    "SYMPATHETIC_REPORT_SOLO": "It usually follows another XID; report it to support when it stands alone.",
    "CONTACT_SUPPORT": "Contact the vendor's support if it comes again.",
    "CHECK_APP/CUDA": "Look for a fault in the application or its CUDA version.",
    "WORKFLOW_XID_13": (
        "Usually the application reads or writes out of bounds: run it under compute-sanitizer. If different "
        "applications fail on this GPU alone, run DCGM's diagnostics."
    ),
    "WORKFLOW_XID_31": (
        "Usually the application uses an invalid address: run it under compute-sanitizer. If different "
        "applications fail on this GPU alone, run DCGM's diagnostics."
    ),
    "WORKFLOW_XID_48": "Run DCGM's diagnostics; replace the GPU if the error comes again after the reset.",
    "WORKFLOW_NVLINK5_ERR": "Decode unit and status of the log line with NVIDIA's NVLink 5 tables.",
    "Solo: RESTART_FM Not Solo: IGNORE (follow other Xid)": "",
    "INVESTIGATE_SW": "Look for a fault in driver or firmware: compare the versions with known issues.",
    "INVESTIGATE_SW_USER": "Look at what was asked of the links by software just before.",
    "INVESTIGATE_LINK_SI": "Look into the link's signal quality: bit error rate, cables, seats.",
    "UPDATE_SWFW": "",
    "XID_137_FLOW": "Look for a peer GPU that failed or was reset at the same time.",
}
_NOT_TO_WAIT: Final = frozenset(
    {"CHECK_MECHANICALS", "WORKFLOW_NVLINK_ERR", "WORKFLOW_NVLINK5_ERR", "XID_154"}
)
# What fails is then most likely the program, not the GPU.
_OF_THE_APPLICATION: Final = frozenset({"CHECK_APP/CUDA", "WORKFLOW_XID_13", "WORKFLOW_XID_31"})
_UNKNOWN_ACTION: Final = "Not in NVIDIA's catalogue as Strata has it: see the kernel's log around it (dmesg)."


@dataclass(frozen=True, slots=True)
class Xid:
    """One XID. `action`: what to do at once; `investigate`: what to look into afterwards, or ""."""

    code: int
    mnemonic: str
    description: str
    kind: Class
    action: str
    investigate: str
    severity: Severity


def explain(code: int) -> Xid:
    """What the catalogue says of this XID; one of kind "unknown" where it says nothing."""
    return catalogue().get(code) or Xid(code, "", "Unknown XID", "unknown", _UNKNOWN_ACTION, "", "warning")


@cache
def catalogue() -> dict[int, Xid]:
    """Every known XID by its code."""
    rows = json.loads((Path(__file__).parent / "xid.json").read_text(encoding="utf-8"))
    return {row["xid"]: _of(row) for row in rows}


def _of(row: dict[str, Any]) -> Xid:
    kind, action = _AT_ONCE[row["immediate_action"]]
    afterwards = row["investigatory_action"]
    if kind == "restart_app" and afterwards in _OF_THE_APPLICATION:
        kind = "application"
    description = row["description"]
    if description == "Unused":  # NVIDIA's word for codes that no driver of today gives
        description = "Not used by today's drivers"
    mnemonic = " / ".join(part.strip(" /") for part in row["mnemonic"].split("\\n"))
    severity = "critical" if row["immediate_action"] in _NOT_TO_WAIT else _SEVERITY[kind]
    return Xid(row["xid"], mnemonic, description, kind, action, _AFTERWARDS[afterwards], severity)
