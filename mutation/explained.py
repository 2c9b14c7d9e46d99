"""Survivors that no test can or need tell, with the reason for each, from explained.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

_FILE = Path(__file__).with_name("explained.toml")


def explained(file: Path = _FILE) -> dict[str, dict[str, str]]:
    """By module and mutant, the reason."""
    found: dict[str, dict[str, str]] = {}
    for module, groups in tomllib.loads(file.read_text()).items():
        reasons = found.setdefault(module, {})
        for group in groups:
            for name in group["mutants"]:
                if name in reasons:
                    raise ValueError(f"{module}: explained twice: {name}")
                reasons[name] = group["why"]
    return found
