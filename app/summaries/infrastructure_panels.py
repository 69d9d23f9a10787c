"""The Infrastructure page: the fleet's tiles and charts, and what its heat map can show."""

from collections.abc import Mapping

from app.summaries.layer_page import GPU_LABELS, LayerPage, Panel, PanelBand, TileSignal, by_gpu

_QUIET = "Nothing reported in this time range."

INFRASTRUCTURE = LayerPage(
    "infrastructure",
    "Infrastructure",
    "node",
    ("gpu_power_watts", "gpu_memory_used_bytes", "node_cpu_used_ratio"),
    (
        TileSignal("gpu_utilization", "GPU utilisation", "No GPU"),
        TileSignal("gpu_tensor_activity", "Tensor activity", "No GPU"),
        TileSignal("gpu_memory_used_ratio", "GPU memory used", "No GPU"),
        TileSignal("gpu_power_watts", "GPU power", "No GPU"),
        TileSignal("gpu_temperature_celsius", "Hottest GPU", "No GPU"),
        TileSignal("gpu_xid_events", "XID events, 5 min", "None", comes_and_goes=True),
        TileSignal("node_cpu_used_ratio", "CPU used", "No host"),
        TileSignal("node_memory_used_ratio", "Host memory used", "No host"),
    ),
    (
        PanelBand(
            "gpus",
            "GPUs",
            (
                by_gpu("gpu_utilization", "Utilisation", none=_QUIET),
                by_gpu("gpu_tensor_activity", "Tensor activity", none=_QUIET),
                by_gpu("gpu_memory_used_ratio", "Memory used", none=_QUIET),
                by_gpu("gpu_power_watts", "Power", none=_QUIET),
                by_gpu("gpu_temperature_celsius", "Temperature, hottest", none=_QUIET),
                Panel(
                    "gpu_throttled",
                    "Throttled, by cause",
                    ("gpu_throttled_ratio",),
                    ("node", "cause"),
                    ("node", "gpu", "cause"),
                    none=_QUIET,
                ),
            ),
        ),
        PanelBand(
            "faults",
            "GPU errors",
            (
                Panel(
                    "gpu_xid_events",
                    "XID events",
                    ("gpu_xid_events",),
                    ("node", "cause"),
                    ("node", "gpu", "cause"),
                    none="No XID in this time range.",
                ),
                Panel(
                    "ecc",
                    "ECC errors",
                    ("gpu_ecc_corrected", "gpu_ecc_uncorrected"),
                    ("node",),
                    GPU_LABELS,
                    none=_QUIET,
                    names=("corrected", "uncorrected"),
                ),
                by_gpu("gpu_pcie_replays_per_second", "PCIe replays", none=_QUIET),
                Panel("nvlink", "NVLink errors", ("gpu_nvlink_errors",), ("node", "cause"), none=_QUIET),
            ),
            opened=False,
        ),
        PanelBand(
            "hosts",
            "Hosts",
            (
                Panel("cpu", "CPU used", ("node_cpu_used_ratio",), ("node",), none=_QUIET),
                Panel("memory", "Memory used", ("node_memory_used_ratio",), ("node",), none=_QUIET),
                Panel(
                    "disk", "Disk used", ("node_filesystem_used_ratio",), ("node", "mountpoint"), none=_QUIET
                ),
                Panel("pressure", "Pressure", ("node_pressure_ratio",), ("node", "resource"), none=_QUIET),
                Panel(
                    "network",
                    "Network",
                    ("node_network_receive_bytes_per_second", "node_network_transmit_bytes_per_second"),
                    ("node",),
                    none=_QUIET,
                    names=("in", "out"),
                ),
                Panel(
                    "infiniband",
                    "InfiniBand",
                    ("ib_receive_bytes_per_second", "ib_transmit_bytes_per_second"),
                    ("node",),
                    none=_QUIET,
                    names=("in", "out"),
                ),
            ),
            opened=False,
        ),
        PanelBand(
            "orchestration",
            "Orchestration and storage",
            (
                Panel(
                    "replicas",
                    "Replicas",
                    ("replicas_wanted", "replicas_ready"),
                    ("namespace", "workload"),
                    none=_QUIET,
                    names=("wanted", "ready"),
                ),
                Panel("pods_pending", "Pods pending", ("pods_pending",), ("namespace",), none=_QUIET),
                Panel("restarts", "Container restarts", ("pod_restarts",), ("namespace", "pod"), none=_QUIET),
                Panel("slurm_gpus", "Slurm GPUs", ("slurm_gpus",), ("partition", "state"), none=_QUIET),
                Panel(
                    "storage",
                    "Storage throughput",
                    ("storage_read_bytes_per_second", "storage_write_bytes_per_second"),
                    ("instance", "target"),
                    none=_QUIET,
                    names=("read", "written"),
                ),
            ),
            opened=False,
        ),
    ),
)

# What the fleet's heat map can show: title -> signal.
HEAT_SIGNALS: Mapping[str, str] = {
    "Utilisation": "gpu_utilization",
    "Tensor activity": "gpu_tensor_activity",
    "Memory used": "gpu_memory_used_ratio",
    "Power": "gpu_power_watts",
    "Temperature": "gpu_temperature_celsius",
    "Throttled": "gpu_throttled_ratio",
}
