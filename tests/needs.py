"""Programs that some tests need: skipped by name where absent, an error on CI."""

import os
import shutil

import pytest

PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-node-exporter": "prometheus-node-exporter",
    "victoria-metrics": "victoria-metrics",
    "chromium": "chromium",
    "pg_ctlcluster": "postgresql",
    "cc": "gcc libc6-dev",
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "squeue": "slurm-wlm",
}


def require_program(name: str) -> str:
    """Path of a program; skips the test (fails it when CI=true) and says what to install."""
    path = shutil.which(name)
    if path is not None:
        return path
    reason = f"needs {name}: apt-get install {PACKAGES.get(name, name)}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
