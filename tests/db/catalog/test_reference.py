"""docs/signals.md says what the catalogue says."""

from db.catalog.load import load_catalog
from tests.db.catalog.reference import PAGE, page


def test_the_page_is_up_to_date():
    text = PAGE.read_text()
    assert text == page(load_catalog(), text), "run: python -m tests.db.catalog.reference"
