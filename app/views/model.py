"""The model layer, inside the engines: KV cache, batches, speculation, lengths; by model and replica."""

from app.layer_body import open_page
from app.summaries.layer_panels import MODEL

page = open_page(MODEL)
page.draw_tiles()
page.draw_bands()
