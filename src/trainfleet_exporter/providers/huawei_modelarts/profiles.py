"""Profiles: sections of the INI file that the vendor's own clients read.

https://github.com/huaweicloud/huaweicloud-sdk-python-v3
"""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from trainfleet_exporter.config.plain import is_plain
from trainfleet_exporter.config.secrets import unusable
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process.redaction import HoldsSecrets
from trainfleet_exporter.providers.huawei_modelarts.auth import AccessKeys

PROJECT_ID = re.compile("[A-Za-z0-9-]{1,64}")
_MAX_BYTES = 65536  # a file of credentials is short; what is longer is the wrong file
_NO_SECTION = "\n"
"""Stands for the section of defaults, which this kind of file does not have."""


@dataclass(frozen=True, slots=True)
class Profile(HoldsSecrets):
    """What a section says; `project_id` is empty where it names none."""

    keys: AccessKeys
    project_id: str = ""


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """One section of a file; `shown` is the file's name for people."""

    path: Path
    name: str
    shown: str

    @property
    def origin(self) -> str:
        """In words."""
        return f"profile {self.name} of {self.shown}"

    @property
    def _section(self) -> str:
        return f"[{self.name if is_plain(self.name) else '…'}]"

    def read(self, real: Path | None = None) -> Profile:
        """The section as it is now, from where the path's links lead; `AccessDenied` says why it is of no use."""
        try:
            with (real or self.path).open("rb") as file:
                raw = file.read(_MAX_BYTES + 1)
        except OSError as error:
            self._deny(error.strerror or "it cannot be read")
        return self._parse(raw)

    def _parse(self, raw: bytes) -> Profile:
        if len(raw) > _MAX_BYTES:
            self._deny(f"it is longer than {_MAX_BYTES} bytes")
        parser = configparser.RawConfigParser(default_section=_NO_SECTION)
        try:
            parser.read_string(raw.decode("utf-8-sig"))
        except UnicodeDecodeError:
            self._deny("it is not UTF-8")
        except configparser.Error as error:
            # Its own message quotes the line, which may be a secret.
            line = getattr(error, "lineno", None) or next(iter(getattr(error, "errors", ())), (None,))[0]
            self._deny("it is not an INI file" + (f" (line {line})" if line else ""))
        if not parser.has_section(self.name):
            self._deny(f"it has no section {self._section}")
        section = parser[self.name]
        values = {key: section.get(key, "") for key in ("ak", "sk", "security_token", "project_id")}
        for key, value in values.items():
            if (key in ("ak", "sk") or value) and unusable(value):
                self._deny(f"{key} of section {self._section} is missing or not one line")
        if values["project_id"] and not PROJECT_ID.fullmatch(values["project_id"]):
            self._deny(f"project_id of section {self._section} is not 1 to 64 letters, digits and hyphens")
        keys = AccessKeys(values["ak"], values["sk"], values["security_token"] or None)
        return Profile(keys, values["project_id"])

    def _deny(self, reason: str) -> NoReturn:
        raise AccessDenied(f"the file {self.shown} cannot be used: {reason}") from None
