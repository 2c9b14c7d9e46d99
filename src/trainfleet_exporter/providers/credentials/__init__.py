"""Credentials of every cloud: their sources, their refresh, and their rotation.

A cloud has a table (`CredentialTable`), a section of its config (`CredentialsSection`) and dialects of its APIs.
"""

from __future__ import annotations

from trainfleet_exporter.providers.credentials.chain import (
    CredentialClients,
    CredentialExchange,
    CredentialTable,
    open_credential,
)
from trainfleet_exporter.providers.credentials.config import CredentialsSection
from trainfleet_exporter.providers.credentials.credential import Credential, FixedCredential, Issued, Keys, issued_keys
from trainfleet_exporter.providers.credentials.dialects import OpenDialect, SignedDialect
from trainfleet_exporter.providers.credentials.environment import Environment, refuse_chain
from trainfleet_exporter.providers.credentials.metadata import MetadataService
from trainfleet_exporter.providers.credentials.profile import ProfileFile, ProfileFormat, parse_ini
from trainfleet_exporter.providers.credentials.refreshable import BackOff
from trainfleet_exporter.providers.credentials.sources import (
    AssumedRole,
    FirstOf,
    GivenKeys,
    KeySource,
    KeysUri,
    MachineRole,
    OidcRole,
    PasswordUser,
    ProfileKeys,
    Session,
    Source,
    is_swapped,
)

__all__ = [
    "AssumedRole",
    "BackOff",
    "Credential",
    "CredentialClients",
    "CredentialExchange",
    "CredentialTable",
    "CredentialsSection",
    "Environment",
    "FirstOf",
    "FixedCredential",
    "GivenKeys",
    "Issued",
    "KeySource",
    "Keys",
    "KeysUri",
    "MachineRole",
    "MetadataService",
    "OidcRole",
    "OpenDialect",
    "PasswordUser",
    "ProfileFile",
    "ProfileFormat",
    "ProfileKeys",
    "Session",
    "SignedDialect",
    "Source",
    "is_swapped",
    "issued_keys",
    "open_credential",
    "parse_ini",
    "refuse_chain",
]
