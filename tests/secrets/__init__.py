"""Planted secrets: none reaches a log, a page, an error or a repr."""  # noqa: A005 - imported as tests.secrets only
