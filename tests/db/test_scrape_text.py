"""The configuration in force as text: complete enough to recognise, and without a secret."""

from pathlib import Path

import yaml

from db.scrape_text import scrape_config_text
from db.settings import load_settings

SECRETS = ("hush-1", "hush-2", "hush-3", "hush-4")


def test_jobs_are_shown_and_secrets_are_not(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(
        """
global: {scrape_interval: 30s}
scrape_configs:
- job_name: node
  basic_auth: {username: watcher, password: hush-1}
  static_configs: [{targets: ['a:9100'], labels: {rack: 'r"1'}}]
- job_name: "it's\\n two"
  authorization: {credentials: hush-2}
  http_sd_configs: [{url: 'http://me:hush-3@sd/x', basic_auth: {username: u, password: hush-4}}]
"""
    )
    settings = load_settings(
        None, {"data": tmp_path, "prometheus_config": tmp_path / "prometheus.yml"}, {"HOME": str(tmp_path)}
    )
    text = scrape_config_text(settings)
    assert not [secret for secret in SECRETS if secret in text]
    node, other = yaml.safe_load(text)["scrape_configs"]
    assert node["job_name"] == "node"
    assert node["scrape_interval"] == "30s"
    assert node["basic_auth"] == {"username": "watcher", "password": "<secret>"}
    assert node["static_configs"] == [{"targets": ["a:9100"], "labels": {"rack": 'r"1'}}]
    assert other["job_name"] == "it's\n two"
    assert other["authorization"]["credentials"] == "<secret>"
    assert other["http_sd_configs"][0]["url"] == "http://me:<secret>@sd/x"


def test_without_jobs(tmp_path: Path) -> None:
    settings = load_settings(None, {"data": tmp_path}, {"HOME": str(tmp_path)})
    assert yaml.safe_load(scrape_config_text(settings)) == {
        "global": {"scrape_interval": "5s"},
        "scrape_configs": [],
    }
