"""Every page over a demo's samples says so in a word; no page over real ones does."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from app import context
from tests.views.pages import MAIN, Site

PAGES = sorted(path.stem for path in (MAIN.parent / "views").glob("*.py") if path.stem != "__init__")


@pytest.fixture
def demo(site: Site) -> Iterator[Site]:
    real = context.current()
    context.install(replace(real, demo=True))
    yield site
    context.install(real)


def marks(site: Site, page: str) -> list[str]:
    return [str(item.value) for item in site.page(page).markdown if "DEMO" in str(item.value)]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_over_a_demo_is_marked(demo, page):
    (mark,) = marks(demo, page)
    assert "DEMO" in mark
    assert ":material/" in mark  # a shape besides the word and the colour


@pytest.mark.parametrize("page", PAGES)
def test_no_page_over_real_samples_is(site, page):
    assert marks(site, page) == []
