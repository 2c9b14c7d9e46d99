"""TLS of the web server: its section of the web config file, and the ssl context made of that.

The official exporters use the words of Go, which this module translates to OpenSSL's. It rejects what Python's ssl
cannot do: client certificates that are requested and not verified, and a choice of curves.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from trainfleet_exporter.process.files import read_regular_file

HANDSHAKE_SOCKET: ContextVar[socket.socket] = ContextVar("HANDSHAKE_SOCKET")
"""The socket of the connection that is being set up: asyncio would drop the TLS alert of a refusal."""
_CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
"""Suites of TLS 1.2 by the names of Go."""
_CIPHERS_OF_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""The suites of TLS 1.3 are always on, in both."""
_VERIFYING = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_PEM = ("cert", "key", "client_ca")
_MAX_PEM_BYTES = 1_000_000


class Strict(BaseModel):
    """A mapping of the web config file: unknown keys are errors, and no value means its defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        return {} if given is None else given


def _suite(name: str) -> str:
    if name not in _CIPHERS and name not in _CIPHERS_OF_13:
        raise ValueError(", ".join((*_CIPHERS, *_CIPHERS_OF_13)))
    return name


class TlsServer(Strict):
    """The section; an empty one means plain HTTP."""

    cert_file: Path | None = None
    key_file: Path | None = None
    cert: str | None = Field(default=None, repr=False)
    key: str | None = Field(default=None, repr=False)
    client_auth_type: Literal[
        "NoClientCert", "RequestClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = "NoClientCert"
    client_ca_file: Path | None = None
    client_ca: str | None = Field(default=None, repr=False)
    client_allowed_sans: tuple[str, ...] | None = None
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS12", "TLS13"] = "TLS13"
    cipher_suites: tuple[Annotated[str, AfterValidator(_suite)], ...] = ()
    prefer_server_cipher_suites: bool = True


def tls_problems(given: Mapping[str, Any]) -> dict[str, str]:
    """Return contradictions between values of the section by key; the values may be of any type."""
    given = {key: value for key, value in given.items() if value is not None or key == "client_allowed_sans"}
    problems: dict[str, str] = {}
    for name in _PEM:
        if name in given and f"{name}_file" in given:
            problems[name] = f"found both {name} and {name}_file; allowed: one of them"
        elif name not in given and f"{name}_file" not in given and name != "client_ca":
            allowed = f"a path as {name}_file, or the text itself as {name}"
            problems[f"{name}_file"] = f"required, but missing; allowed: {allowed}"
    auth = given.get("client_auth_type", "NoClientCert")
    authority = "client_ca" if "client_ca" in given else "client_ca_file"
    if authority in given and auth not in _VERIFYING:
        allowed = f"{' or '.join(_VERIFYING)} as client_auth_type"
        problems[authority] = f"found an authority, but no certificates are requested; allowed: {allowed}"
    elif authority not in given and auth in _VERIFYING:
        allowed = "the path of a PEM file with the authorities of the clients"
        problems[authority] = f"required, but missing; allowed: {allowed}"
    if "client_allowed_sans" in given and (auth != _VERIFYING[1] or not given["client_allowed_sans"]):
        allowed = f"a list of names, with {_VERIFYING[1]} as client_auth_type"
        problems["client_allowed_sans"] = f"found no names to check; allowed: {allowed}"
    if (given.get("min_version"), given.get("max_version")) == ("TLS13", "TLS12"):
        problems["min_version"] = "found TLS13, above max_version (TLS12); allowed: a version that is not above it"
    suites = given.get("cipher_suites")
    if suites and given.get("max_version") == "TLS12" and not any(str(suite) in _CIPHERS for suite in suites):
        found = "found only suites of TLS 1.3, which max_version excludes"
        problems["cipher_suites"] = f"{found}; allowed: at least one suite of TLS 1.2"
    return problems


def make_context(given: TlsServer, folder: Path) -> tuple[ssl.SSLContext, dict[str, str]]:
    """Read the files, with paths from the folder; return the context, and problems by key that forbid its use."""
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = getattr(ssl.TLSVersion, given.min_version.replace("S1", "Sv1_"))
    context.maximum_version = getattr(ssl.TLSVersion, given.max_version.replace("S1", "Sv1_"))
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if not given.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    if of_12 := [_CIPHERS[suite] for suite in given.cipher_suites if suite in _CIPHERS]:
        context.set_ciphers(":".join(of_12))
    elif given.cipher_suites:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    verifies = given.client_auth_type in _VERIFYING
    keys = {name: name if getattr(given, f"{name}_file") is None else f"{name}_file" for name in _PEM}
    texts: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    for name in _PEM if verifies else _PEM[:2]:
        value: str | Path = getattr(given, keys[name])
        try:
            texts[name] = (
                read_regular_file(folder / value, _MAX_PEM_BYTES)[1] if isinstance(value, Path) else value.encode()
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a path"
            problems[keys[name]] = f"found a file that cannot be read ({reason}); allowed: a readable file in PEM"
    if "cert" in texts and not _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), texts["cert"]):
        allowed = "the server's, followed by its chain, in PEM"
        problems[keys["cert"]] = f"found no usable certificate; allowed: {allowed}"
    elif "cert" in texts and "key" in texts and (reason := _load_pair(context, texts["cert"], texts["key"])):
        allowed = "the private key of the certificate, in PEM"
        problems[keys["key"]] = f"found an unusable key ({reason}); allowed: {allowed}"
    if "client_ca" in texts and not _verify_clients(context, given, texts["client_ca"]):
        allowed = "those of the clients' authorities, in PEM"
        problems[keys["client_ca"]] = f"found no usable certificate; allowed: {allowed}"
    return context, problems


def _load_pair(context: ssl.SSLContext, cert: bytes, key: bytes) -> str:
    """Load the server's certificate and key; return why the key is unusable, if it is."""
    try:
        with _as_path(cert) as cert_path, _as_path(key) as key_path:
            context.load_cert_chain(cert_path, key_path, password="")  # else OpenSSL would ask at the terminal
    except (ssl.SSLError, ValueError) as error:
        is_other = getattr(error, "reason", None) == "KEY_VALUES_MISMATCH"
        return "it does not belong to the certificate" if is_other else "it is not a key in PEM, or has a passphrase"
    return ""


@contextlib.contextmanager
def _as_path(content: bytes) -> Iterator[str]:
    """Yield a path from which OpenSSL can read a text: it accepts keys only as files. On Linux it is not on disk."""
    has_memory = hasattr(os, "memfd_create")
    made = os.fdopen(os.memfd_create("pem"), "wb") if has_memory else tempfile.NamedTemporaryFile()  # noqa: SIM115 - below
    with made as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if has_memory else str(file.name)


def _verify_clients(context: _Context, given: TlsServer, pem: bytes) -> bool:
    """Request certificates of clients; return whether the text has an authority."""
    context.verify_mode = (
        ssl.CERT_REQUIRED if given.client_auth_type == "RequireAndVerifyClientCert" else ssl.CERT_OPTIONAL
    )
    # An authority in the file is trusted, also one that another authority has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # A resumed session is not verified again: there are no tickets. Sessions of TLS 1.2 that the server keeps cannot be
    # switched off; they end with the context, which is replaced when the files change.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    if given.client_allowed_sans is not None:
        context.allowed_names = frozenset(map(_same, given.client_allowed_sans))
    return _load_authorities(context, pem)


def _load_authorities(context: ssl.SSLContext, pem: bytes) -> bool:
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", errors="ignore"))
    except (ssl.SSLError, ValueError):
        return False
    return context.cert_store_stats()["x509"] > 0


class _Context(ssl.SSLContext):
    """A context whose handshakes send their alert when they fail, and check the names of clients."""

    allowed_names: frozenset[str] | None = None

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        self.sslobject_class = _Handshake
        made = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        assert isinstance(made, _Handshake)
        made.outgoing, made.allowed_names = outgoing, self.allowed_names
        made.socket = HANDSHAKE_SOCKET.get(None)
        return made


class _Handshake(ssl.SSLObject):
    outgoing: ssl.MemoryBIO
    allowed_names: frozenset[str] | None
    socket: socket.socket | None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
            self._check_client()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError:
            if self.socket is not None:
                with contextlib.suppress(OSError):
                    self.socket.send(self.outgoing.read())
            raise

    def _check_client(self) -> None:
        certificate: dict[str, Any] | None = self.getpeercert()
        problem = ""
        if self.session_reused and certificate and ssl.cert_time_to_seconds(certificate["notAfter"]) < time.time():
            problem = "the client's certificate has expired"
        elif self.allowed_names is not None and not names_of(certificate) & self.allowed_names:
            problem = "the client's certificate has none of the allowed names"
        if problem:
            with contextlib.suppress(ssl.SSLError):
                self.unwrap()  # OpenSSL's handshake is over: its only alert is that of a normal end
            raise ssl.SSLCertVerificationError(1, problem)


def names_of(certificate: dict[str, Any] | None) -> frozenset[str]:
    """Return the alternative names of a certificate as `getpeercert()` gives it: hosts, addresses, mail, URIs."""
    names = (certificate or {}).get("subjectAltName", ())
    kinds = {"DNS", "IP Address", "email", "URI"}
    return frozenset(_same(value.strip()) if kind == "IP Address" else value for kind, value in names if kind in kinds)


def _same(name: str) -> str:
    """Write an address in the one way that compares equal; other names stay."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name
