"""What the user pays: prices by GPU name or pattern, and what is no price."""

import time
from pathlib import Path

import pytest

from db.price_settings import GpuPrice, PriceSettings
from db.settings import SettingsError, load_settings


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> PriceSettings:
    path = tmp_path / "strata.yaml"
    path.write_text(text)
    return load_settings(path, {}, {"HOME": "/home/ada", **(environ or {})}).prices


def test_without_a_price_there_is_none(tmp_path):
    prices = load(tmp_path, "")
    assert prices.of("NVIDIA H200") is None
    assert prices.electricity_usd_per_kwh is None
    assert prices.power_usage_effectiveness is None


def test_the_first_that_fits_counts_and_zero_is_a_price(tmp_path):
    prices = load(
        tmp_path,
        """
prices:
  gpus:
    - {gpu: NVIDIA H100 80GB HBM3, usd_per_hour: 2.20, owned: false}
    - {gpu: "nvidia h100*", usd_per_hour: 1, owned: false}
    - {gpu: L40S, usd_per_hour: 0, owned: true}
  electricity_usd_per_kwh: 0.15
  power_usage_effectiveness: 1.3
""",
    )
    found = [prices.of(name) for name in ("NVIDIA H100-80GB-HBM3", "NVIDIA H100 NVL", "L40S", "NVIDIA L40S")]
    assert [price and price.usd_per_hour for price in found] == [2.2, 1, 0, None]
    assert found[2] is not None
    assert found[2].owned
    assert (prices.electricity_usd_per_kwh, prices.power_usage_effectiveness) == (0.15, 1.3)


def test_the_environment_sets_what_the_file_does_not(tmp_path):
    environ = {
        "STRATA_PRICES__ELECTRICITY_USD_PER_KWH": "0.3",
        "STRATA_PRICES__GPUS": "[{gpu: '*', usd_per_hour: 3, owned: no}]",
    }
    prices = load(tmp_path, "prices:\n  power_usage_effectiveness: 2\n", environ)
    price = prices.of("anything")
    assert price is not None
    assert price.usd_per_hour == 3
    assert (prices.electricity_usd_per_kwh, prices.power_usage_effectiveness) == (0.3, 2)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("gpus: [{gpu: A, usd_per_hour: 1}]", "'owned' is missing"),
        ("gpus: [{gpu: A, owned: true}]", "'usd_per_hour' is missing"),
        ("gpus: [{gpu: A, usd_per_hour: -1, owned: true}]", "'usd_per_hour' has to be between 0 and"),
        ("gpus: [{gpu: A, usd_per_hour: '1', owned: true}]", "'usd_per_hour' has to be a number, without"),
        ("gpus: [{gpu: A, usd_per_hour: nan, owned: true}]", "'usd_per_hour' has to be a number, like"),
        ("gpus: [{gpu: A, usd_per_hour: 2$, owned: true}]", "a number, like 2.5, not '2$'"),
        ("gpus: [{gpu: ' ', usd_per_hour: 1, owned: true}]", "'gpu' has to name a GPU"),
        ("gpus: [{gpu: A, usd_per_hour: 1, owned: maybe}]", "'owned' has to be true or false"),
        ("gpus: [{gpu: A, usd_per_hour: 1, own: true}]", "unknown key 'own'; did you mean 'owned'?"),
        ("gpus: {gpu: A}", "'gpus' has to be a list"),
        ("electricity_usd_per_kwh: cheap", "'electricity_usd_per_kwh' has to be a number"),
        ("power_usage_effectiveness: 0.9", "'power_usage_effectiveness' has to be between 1 and 10"),
        ("power_usage_effectiveness: 130", "'power_usage_effectiveness' has to be between 1 and 10"),
        ("electricty: 1", "unknown key 'electricty'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(tmp_path, line, reason):
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, f"prices:\n  {line}\n")
    assert "strata.yaml:2: " in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*", "NVIDIA H200", True),
        ("*", "", False),
        ("NVIDIA H100*", "NVIDIA H100", True),
        ("NVIDIA H100 *", "NVIDIA H1000", False),
        ("*H100*HBM3", "NVIDIA H100 80GB HBM3", True),
        ("*H100*HBM3", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", False),
        ("*ab*ba", "aba", False),  # the two parts may not share a letter
        ("*ab*ba", "abba", True),
        ("[a-z]?*", "NVIDIA H200", False),
        ("NVIDIA_H200", "NVIDIA H200", True),
        ("NVIDIA H200", "NVIDIA H200 NVL", False),
    ],
)
def test_a_star_stands_for_any_characters_and_nothing_else_does(pattern, name, fits):
    assert GpuPrice(gpu=pattern, usd_per_hour=1, owned=False).fits(name) is fits


def test_many_stars_do_not_search_for_ever():
    price = GpuPrice(gpu="*a" * 90 + "b", usd_per_hour=1, owned=False)
    started = time.process_time()
    assert not price.fits("a" * 200)
    assert time.process_time() - started < 1


def test_the_hardware_file_is_beside_the_file_that_names_it(tmp_path):
    path = tmp_path / "strata.yaml"
    path.write_text("hardware_file: cards.csv\n")
    assert load_settings(path, {}, {"HOME": "/home/ada"}).hardware_file == tmp_path / "cards.csv"
