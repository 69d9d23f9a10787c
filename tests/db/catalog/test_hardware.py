"""Cards by the names that drivers and exporters give them: never a wrong one, and a user's own table."""

import csv
import re
from dataclasses import fields
from pathlib import Path

import pytest

from db.catalog.hardware import COLUMNS, Hardware, HardwareFileError, HardwareTable, load_hardware, match

FIXTURES = Path(__file__).parents[2] / "fixtures"
TABLE = Path(__file__).parents[3] / "db/catalog/hardware.csv"


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
        ("NVIDIA H100 NVL", "H100 NVL 94GB"),
        ("NVIDIA H200", "H200 SXM 141GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB"),
        ("A100-SXM4-40GB", "A100 SXM4 40GB"),  # drivers before 470 leave the vendor out
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2 32GB"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA GB200", "GB200 (per GPU)"),
        ("NVIDIA B200", "B200 SXM 180GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("Instinct MI325X", "MI325X"),
        ("NVIDIA-H100-80GB-HBM3", "H100 SXM5 80GB"),  # as Kubernetes labels have it
        ("  nvidia  h200 ", "H200 SXM 141GB"),
    ],
)
def test_a_reported_name_finds_its_card(reported, name):
    found = match(reported)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "reported",
    [
        *("", " ", "NVIDIA", "H100", "A100", "NVIDIA A100", "NVIDIA A100-PCIE-40GB", "AMD H200"),
        *("NVIDIA H200 NVL", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "Tesla V100-SXM2-16GB", "NVIDIA L40"),
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "AMD Instinct MI250X"),
        *("NVIDIA H100 80GB HBM2e", "NVIDIA H2000", "xNVIDIA H200", "NVIDIA H200\x00", "tiny", "qwen3-8b"),
        *("<b>NVIDIA H200</b>", 'NVIDIA H200"} or vector(1)', "\ud800", "\u202eNVIDIA H200"),
        *("NVIDIA H200" + " " * 200, "H" * 1_000_000),
    ],
    ids=lambda text: ascii(text[:40]),
)  # fmt: skip
def test_a_name_that_nobody_listed_is_no_card(reported):
    assert match(reported) is None


def test_every_gpu_of_the_captured_pages_is_known():
    pages = [*FIXTURES.glob("dcgm/*.prom"), *FIXTURES.glob("nvidia-smi/*.txt")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    seen = set(re.findall(r'modelName="([^"]+)"', text))
    seen |= {name.strip() for name in re.findall(r"^ +Product Name +: (.*)$", text, flags=re.MULTILINE)}
    assert seen >= {
        "Tesla T4",
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA H200",
        "NVIDIA L40S",
        "NVIDIA H100 80GB HBM3",
    }
    assert [name for name in sorted(seen) if match(name) is None] == []


def test_numbers_are_in_the_units_that_their_names_say():
    h100 = match("NVIDIA H100 80GB HBM3")
    assert h100 is not None
    assert h100.memory_bytes == 80 * 2**30
    assert h100.memory_bandwidth_bytes_per_second == 3.35e12
    assert h100.peak_flops == {
        "fp64": 33.5e12, "fp64_matrix": 67e12, "fp32": 67e12, "tf32": 494.5e12, "bf16": 989e12,
        "fp16": 989e12, "fp8": 1979e12, "int8": 1979e12,
    }  # fmt: skip
    assert h100.scale_up_bytes_per_second_one_way == 450e9
    assert (h100.tdp_watts, h100.l2_bytes, h100.last_level_cache_bytes) == (700, 50 * 2**20, None)
    assert (h100.vendor, h100.architecture, h100.scale_up_domain) == ("NVIDIA", "Hopper", "8")
    assert h100.source.startswith("aiconfigurator")


def test_what_is_not_known_is_absent_and_int4_is_not_fp4():
    t4, v100 = match("Tesla T4"), match("Tesla V100-SXM2-32GB")
    assert t4 is not None
    assert v100 is not None
    assert t4.peak_flops["int4"] == 260e12
    assert "fp4" not in t4.peak_flops
    assert "bf16" not in v100.peak_flops


@pytest.mark.parametrize(
    ("capture", "reported"),
    [("nvidia-h200__590.48.01", "NVIDIA H200"), ("nvidia-l40s__595.80", "NVIDIA L40S")],
)
def test_memory_is_at_most_7_percent_more_than_drivers_show(capture, reported):
    text = (FIXTURES / f"nvidia-smi/{capture}.capture.txt").read_text(encoding="utf-8")
    shown = re.search(r"FB Memory Usage\s+Total +: (\d+) MiB", text)
    found = match(reported)
    assert shown is not None
    assert found is not None
    assert found.memory_bytes is not None
    assert 1 <= found.memory_bytes / (int(shown[1]) * 2**20) <= 1.07


def test_the_table_has_no_cell_that_is_not_read_and_no_name_twice():
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == set(COLUMNS)
    reported = [name.strip() for row in rows for name in row["names"].split("|") if name.strip()]
    assert len(reported) == len(set(reported)) > 30
    assert len({row["name"] for row in rows}) == len(rows) == len(load_hardware().rows)
    known = {one.name for one in fields(Hardware)}
    assert all(getattr(row, name) is not None for row in load_hardware().rows for name in known - OPTIONAL)


OPTIONAL = {one.name for one in fields(Hardware) if one.default is None}


def of(tmp_path: Path, text: str, *more: str) -> HardwareTable:
    files = []
    for number, one in enumerate((text, *more)):
        files.append(tmp_path / f"mine{number}.csv")
        files[-1].write_bytes(one.encode())
    return load_hardware(files)


def test_a_users_file_adds_cards_and_overrides_cells(tmp_path):
    table = of(
        tmp_path,
        "\ufeffname,names,tdp_w,bf16_tflops\r\n"
        'Wafer,Wafer Engine 3 | WSE-3,23000,"62500"\r\n'
        "H200 SXM 141GB,NVIDIA H200 Special,,900\r\n\r\n",
    )
    wafer, special = table.match("wafer engine 3"), table.match("NVIDIA H200 Special")
    assert wafer is not None
    assert special is not None
    assert (wafer.name, wafer.tdp_watts, wafer.peak_flops) == ("Wafer", 23000, {"bf16": 62.5e15})
    assert wafer.memory_bytes is None
    assert special == table.match("NVIDIA H200") == table.named("H200 SXM 141GB")
    assert (special.tdp_watts, special.peak_flops["bf16"], special.peak_flops["fp8"]) == (700, 9e14, 1.979e15)
    built_in = match("NVIDIA H200")
    assert built_in is not None
    assert built_in.peak_flops["bf16"] == 989e12


def test_a_name_that_a_user_gives_to_another_card_is_that_ones(tmp_path):
    table = of(tmp_path, "name,names\nMine,nvidia h200\n", "name,names,note\nT4,,x\n")
    mine, t4 = table.match("NVIDIA H200"), table.match("Tesla T4")
    assert mine is not None
    assert mine.name == "Mine"
    assert t4 is not None
    assert t4.note == "x"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"mine0.csv:1: has no column 'name'; the columns are name, vendor"),
        ("name,tpd_w\nA,1\n", r"mine0.csv:1: unknown column 'tpd_w'; did you mean 'tdp_w'\?"),
        ("name,tdp_w\n\nA,700 W\n", r"mine0.csv:3: tdp_w '700 W' is not a number above 0"),
        ("name,tdp_w\nA,nan\n", r"mine0.csv:2: tdp_w 'nan' is not a number"),
        ("name,tdp_w\nA,-1\n", r"mine0.csv:2: tdp_w '-1' is not a number"),
        ("name,tdp_w\n,5\n", r"mine0.csv:2: has no name"),
        ("name,tdp_w\nA,1,2\n", r"mine0.csv:2: has 3 cells for 2 columns; put quotes"),
        ("name,names\nA,same\nB,SAME\n", r"mine0.csv:3: 'same' is a name of 'A' already"),
        ('name\n"A\n', r"mine0.csv:2: is not CSV"),
        ("name\n" + "x" * 200_000, r"mine0.csv:\d: is not CSV"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_how_to_mend_it(tmp_path, text, reason):
    with pytest.raises(HardwareFileError, match=reason):
        of(tmp_path, text)


def test_a_file_that_is_not_there_or_no_text_says_so(tmp_path):
    with pytest.raises(HardwareFileError, match=r"none.csv: cannot be read: No such file"):
        load_hardware([tmp_path / "none.csv"])
    (tmp_path / "latin.csv").write_bytes(b"name\n\xe9\n")
    with pytest.raises(HardwareFileError, match=r"latin.csv: is not UTF-8"):
        load_hardware([tmp_path / "latin.csv"])
