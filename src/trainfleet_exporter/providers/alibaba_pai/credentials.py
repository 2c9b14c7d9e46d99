"""Where an Alibaba Cloud identity's keys come from: the config (text or files that rotate) or the environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Keys:
    """One consistent set of keys, to sign one attempt with."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Answers the keys that are valid now. `origin` says in words where they come from, never what they are."""

    origin: str
    current: Callable[[], Keys]
