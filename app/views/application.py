"""The application layer, the service's traffic: requests, errors by cause, latencies, queue, tokens."""

from app.layer_body import open_page
from app.summaries.layer_panels import APPLICATION

page = open_page(APPLICATION)
page.draw_tiles()
page.draw_bands()
