"""A scraped page, and how two of them differ: see trainfleet_conformance.page."""

from trainfleet_conformance.page import Key, Page, check_both, matching, missing, words, wrong

__all__ = ["Key", "Page", "check_both", "matching", "missing", "words", "wrong"]
