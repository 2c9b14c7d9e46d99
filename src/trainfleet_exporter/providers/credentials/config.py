"""The common part of the `credentials` sections of all clouds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import (
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from trainfleet_exporter.config import Section
from trainfleet_exporter.config.kinds import Surroundings
from trainfleet_exporter.providers.credentials.environment import Environment
from trainfleet_exporter.providers.credentials.sources import Source


class CredentialsSection(Section):
    """The credentials in one of several forms; without the section, the vendor's default chain."""

    _source: Source | None = PrivateAttr(None)
    _by_default: bool = PrivateAttr(False)

    @property
    def source(self) -> Source:
        """The source of the credential."""
        assert self._source is not None  # set by every validation
        return self._source

    def find_source(self, environ: Environment) -> Source:
        """The source that the keys of the section name. Refuses keys that are no form."""
        raise NotImplementedError

    @classmethod
    def of_chain(cls, environ: Environment, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Return the section for the source that the vendor's chain finds. `handler` validates keys of the section."""
        raise NotImplementedError

    @classmethod
    def by_default(cls, source: Source) -> Self:
        """The section for a source that is no form of it."""
        credentials = cls.model_construct()
        credentials._source, credentials._by_default = source, True
        return credentials

    @classmethod
    def or_chain(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Validates a field that may be left out (pydantic.WrapValidator)."""
        return cls.of_chain(_environment(info), handler) if given is None else handler(given)

    def form_keys(self, forms: Sequence[Sequence[str]], allowed: str) -> list[str]:
        """The keys that were given. ValueError if they are of several forms, or of none; `allowed` says the forms."""
        given = [name for name in type(self).model_fields if getattr(self, name)]
        touched = [form for form in forms if set(form) & set(given)]
        if len(touched) != 1:
            found = f"{', '.join(given)}, which are parts of several forms" if given else "no credentials in it"
            raise ValueError(f"found {found}; {allowed}")
        return given

    @model_validator(mode="after")
    def _find(self, info: ValidationInfo) -> Self:
        if self._source is None:
            self._source = self.find_source(_environment(info))
        return self

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any] | None:
        """What the file says; null for the vendor's chain, so that it reads back as such."""
        if self._by_default:
            return None
        return {key: value for key, value in handler(self).items() if value is not None}


def _environment(info: ValidationInfo) -> Environment:
    return Environment(Surroundings.of(info).environ)
