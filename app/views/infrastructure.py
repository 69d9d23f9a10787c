"""The infrastructure layer: every GPU over time and now, hosts, networks, storage and orchestration."""

from app.layer_body import open_page
from app.summaries.infrastructure_panels import INFRASTRUCTURE

page = open_page(INFRASTRUCTURE)
page.draw_tiles()
page.draw_fleet()
page.draw_bands()
