"""Environment variables that say where credentials are, as the links of a vendor's chain read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.config.urls import is_loopback, parse_endpoint
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.credentials.sources import FirstOf, GivenKeys, KeysUri, MachineRole, is_swapped

_TARGET = re.compile(r"/[!-~]*", re.ASCII)


class Environment:
    """The environment while a chain goes through its links. `passed` says why each link so far has nothing.

    Half a link is a fault of the config, as is a value that cannot be used: its author did not mean the next link.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.passed: list[str] = []
        self._variables = variables

    def get(self, name: str) -> str:
        """The value of a variable; empty if it is not set."""
        return self._variables.get(name, "")

    def is_true(self, name: str) -> bool:
        """Return whether a variable is `true`."""
        return self.get(name).strip().lower() == "true"

    def has_all(self, *names: str) -> bool:
        """Return whether all of the variables are set. Rejects some of them without the others."""
        missing = [name for name in names if not self.get(name)]
        if not missing:
            return True
        if len(missing) < len(names):
            there = " and ".join(name for name in names if name not in missing)
            refuse_chain(f"it sets {there} without {' and '.join(missing)}")
        self.passed.append(f"the environment sets no {names[0]}")
        return False

    def keys(self, key_id: str, secret: str, token: str) -> GivenKeys | None:
        """The keys of these variables. Permanent keys have no token."""
        if not self.has_all(key_id, secret):
            return None
        if is_swapped(self.get(key_id), self.get(secret)):
            refuse_chain(f"{secret} holds a key id, and {key_id} the secret: swap them")
        return GivenKeys(*(self.secret(name) for name in (key_id, secret, token) if self.get(name)))

    def secret(self, name: str) -> Secret:
        """The value of a variable that is set."""
        if reason := unusable_secret(self.get(name)):
            refuse_chain(f"{name} cannot be used: {reason}")
        return Secret(self.get(name), source="environment")

    def secret_file(self, name: str) -> Secret:
        """The secret in the file that a variable names."""
        # The path stays out of the message: it may be the secret itself, which must not be in a log.
        try:
            return Secret.from_file(Path(self.get(name)))
        except AccessDenied as error:
            refuse_chain(f"the file of {name} cannot be used: {error.message.rpartition(' cannot be used: ')[2]}")
        except ValueError:
            refuse_chain(f"the file of {name} cannot be used: it is not a path")

    def keys_uri(self, name: str, *, plain_http: Callable[[str], bool] = is_loopback) -> KeysUri | None:
        """The address that a variable names. `plain_http` says at which base URLs it need not be https."""
        uri = self.get(name)
        if not uri:
            self.passed.append(f"the environment sets no {name}")
            return None
        try:
            parts = urlsplit(uri)
            base_url = parse_endpoint(f"{parts.scheme}://{parts.netloc}")
        except ValueError:
            refuse_chain(f"{name} is not an http or https address")
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        if not _TARGET.fullmatch(target):
            refuse_chain(f"{name} is not an http or https address")
        if parts.scheme == "http" and not plain_http(base_url):
            refuse_chain(f"{name} uses plain http to another machine")
        return KeysUri(base_url, Secret(target))

    def first_of(self, *links: MachineRole | KeysUri) -> FirstOf:
        """The links that are asked when credentials are first needed. Refuses a chain without any."""
        if not links:
            raise ValueError(
                "required, but missing: the vendor's own chain has no credentials either "
                f"({'; '.join(self.passed)}); allowed: credentials here, or in one of those places"
            )
        return FirstOf(links, tuple(self.passed))


def refuse_chain(reason: str) -> NoReturn:
    """Refuse a config without credentials for an environment that says something unusable."""
    raise ValueError(
        f"found no credentials here, and those of the environment are not usable ({reason}); "
        "allowed: credentials here, all of the vendor's variables, or none of them"
    )
