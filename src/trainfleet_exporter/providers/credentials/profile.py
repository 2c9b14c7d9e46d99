"""Files of profiles in a vendor's own format, such as those of its command line and its SDKs.

Errors never quote a file, because it holds secrets.
"""

from __future__ import annotations

import configparser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process.files import read_regular_file

T = TypeVar("T")
_NO_SECTION = "\n"
"""A name for the section of defaults that no file can have."""


@dataclass(frozen=True, slots=True)
class ProfileFormat(Generic[T]):
    """How a vendor writes profiles. `parse` raises ValueError or configparser.Error for a file in another format."""

    parse: Callable[[bytes], T]
    invalid: Callable[[Exception], str]
    """What to say of a file in another format, by the error of `parse`."""
    denied: str = "{file}: {reason}"
    """The text of an error."""
    most_bytes: int = 65536
    """A longer file is the wrong one."""


@dataclass(frozen=True, slots=True)
class ProfileFile(Generic[T]):
    """A file of profiles. `shown` is its name in texts."""

    path: Path
    shown: str
    format: ProfileFormat[T]

    def read(self) -> T:
        """All profiles, as they are now. `AccessDenied` says why the file cannot be used."""
        most = self.format.most_bytes
        try:
            _, raw = read_regular_file(self.path, most)
        except (OSError, ValueError) as error:
            raise self.denied(getattr(error, "strerror", None) or "it cannot be read") from None
        try:
            return self.format.parse(raw)
        except (ValueError, configparser.Error) as error:
            raise self.denied(self.format.invalid(error)) from None

    def denied(self, reason: str) -> AccessDenied:
        """The error that the file cannot be used, or a profile of it."""
        return AccessDenied(self.format.denied.format(file=self.shown, reason=reason))


def parse_ini(raw: bytes, *, comments: tuple[str, ...] = ()) -> dict[str, dict[str, str]]:
    """The sections of an INI file. `comments` may follow a value. Raises ValueError and configparser.Error."""
    parser = configparser.RawConfigParser(default_section=_NO_SECTION, inline_comment_prefixes=comments)
    parser.read_string(raw.decode("utf-8-sig"))
    return {name: dict(parser.items(name)) for name in parser.sections()}
