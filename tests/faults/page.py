"""A scraped page, and how two of them differ: see trainfleet_exporter.testing.page."""

from trainfleet_exporter.testing.page import Key, Page, matching, missing, words, wrong

__all__ = ["Key", "Page", "matching", "missing", "words", "wrong"]
