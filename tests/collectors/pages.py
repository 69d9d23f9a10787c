"""The captured pages under tests/fixtures, by format: what every parser test reads."""

from pathlib import Path

from collectors.exposition import Format

FIXTURES = Path(__file__).parents[1] / "fixtures"

EXPORTERS = (
    "blackbox",
    "dcgm",
    "litellm",
    "node_exporter",
    "nvidia-smi",
    "prometheus",
    "prometheus-common",
    "ray",
    "sglang",
    "triton",
    "vllm-live",
    "vllm-live-mfu",
)


def real_pages() -> list[Path]:
    """Every captured page, the ones malformed on purpose (dcgm/raw-with-stray-header) left out."""
    found = [path for name in EXPORTERS for path in sorted((FIXTURES / name).iterdir())]
    return [path for path in found if path.suffix == ".prom" or path.match("prometheus/*.txt")]


def format_of_file(path: Path) -> Format:
    return "openmetrics" if ".om." in path.name or "dump-openmetrics" in path.name else "text"


def name_of(path: Path) -> str:
    return str(path.relative_to(FIXTURES))
