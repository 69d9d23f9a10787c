"""The client layer, what users saw: probes, gateways, browsers and ratings."""

from app.layer_body import open_page
from app.summaries.layer_panels import CLIENT

page = open_page(CLIENT)
page.draw_tiles()
page.draw_bands()
