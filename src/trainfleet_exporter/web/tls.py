"""TLS of the web server: its section of the web config file, and the ssl context made of that.

The official exporters use the words of Go, which this module translates to OpenSSL's. It rejects what Python's ssl
cannot do: client certificates that are requested and not verified, and several curves.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import ssl
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo

from trainfleet_exporter.config import Section
from trainfleet_exporter.config.kinds import Flag, Surroundings, Text
from trainfleet_exporter.config.plain import show
from trainfleet_exporter.config.secrets import unusable
from trainfleet_exporter.config.source import Loc
from trainfleet_exporter.config.validate import near_word
from trainfleet_exporter.process.redaction import HoldsSecrets

_AT = "tls_server_config"
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
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
_NO_AUTH = ("NoClientCert", "RequestClientCert")
_AUTH = (*_NO_AUTH, "VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_UNVERIFIED = ("RequireAnyClientCert", "RequireClientCert")
_MAX_PEM_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault before its line is known."""

    loc: Loc
    message: str


def _client_auth(text: str) -> str:
    allowed = ", ".join(_AUTH)
    if text in _UNVERIFIED:
        accepted = "which is not supported: it would accept certificates of any authority"
        raise ValueError(f"found {text!r}, {accepted}; allowed: {allowed}")
    if text not in _AUTH:
        raise ValueError(f"found {show(text)}; allowed: {allowed}")
    return text


def _path(value: object, info: ValidationInfo) -> Path:
    if not isinstance(value, str) or unusable(value):
        raise ValueError("found a text that is not a path; allowed: the path of a PEM file")
    return Surroundings.of(info).folder / value


def _pem(value: object) -> bytes:
    if not isinstance(value, str) or "-----BEGIN " not in value:
        raise ValueError(
            "found <secret>; allowed: a text in PEM, or the path of its file under the key that ends in _file"
        )
    return value.encode("utf-8", errors="replace")


def _choice(words: Iterable[str]) -> AfterValidator:
    known = tuple(words)

    def validate(text: str) -> str:
        if text not in known:
            near = near_word(text, known)
            hint = f'did you mean "{near}"? ' if near else ""
            raise ValueError(f"{hint}allowed: {', '.join(known)}")
        return text

    return AfterValidator(validate)


_Path: TypeAlias = Annotated[Path, PlainValidator(_path)]
_Pem: TypeAlias = Annotated[bytes, PlainValidator(_pem)]
_Version: TypeAlias = Annotated[str, _choice(_VERSIONS)]
_Curve: TypeAlias = Annotated[str, _choice(_CURVES)]
_Cipher: TypeAlias = Annotated[str, _choice((*_CIPHERS, *_CIPHERS_OF_13))]


class TlsServer(Section):
    """The section; an empty one means plain HTTP."""

    cert_file: _Path | None = None
    key_file: _Path | None = None
    cert: _Pem | None = Field(default=None, repr=False)
    key: _Pem | None = Field(default=None, repr=False)
    client_auth_type: Annotated[str, AfterValidator(_client_auth)] = "NoClientCert"
    client_ca_file: _Path | None = None
    client_ca: _Pem | None = Field(default=None, repr=False)
    client_allowed_sans: tuple[Text, ...] | None = None
    min_version: _Version = "TLS12"
    max_version: _Version = "TLS13"
    cipher_suites: tuple[_Cipher, ...] = ()
    prefer_server_cipher_suites: Flag = True
    curve_preferences: tuple[_Curve, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names."""
        return tuple(path for path in (self.cert_file, self.key_file, self.client_ca_file) if path is not None)

    def key_of(self, name: str) -> str:
        """Return the key that gives the PEM text `name`: as a path or as text."""
        return name if getattr(self, f"{name}_file") is None else f"{name}_file"

    def read(self, name: str) -> tuple[bytes, list[Problem]]:
        """Return the PEM text `name`, from its file if it has one, and its errors."""
        path: Path | None = getattr(self, f"{name}_file")
        if path is None:
            text: bytes | None = getattr(self, name)
            return text or b"", []
        try:
            with path.open("rb") as file:
                content = file.read(_MAX_PEM_BYTES + 1)
        except OSError as error:
            reason = error.strerror or type(error).__name__
        else:
            if len(content) <= _MAX_PEM_BYTES:
                return content, []
            reason = f"it is longer than {_MAX_PEM_BYTES} bytes"
        message = f"found a file that cannot be read ({reason}); allowed: a readable file in PEM"
        return b"", [Problem((_AT, f"{name}_file"), message)]


def tls_problems(given: TlsServer, written: Collection[str], spoilt: Collection[str | int]) -> Iterator[Problem]:
    """Return contradictions between values of the section. `written` are its keys, `spoilt` those with faults."""
    if not written:
        return
    for name in ("cert", "key"):
        yield from _one_of(name, written, f"a path as {name}_file, or the text itself as {name}")
    if "client_auth_type" not in spoilt:
        yield from _client_problems(given, written)
    if given.min_version > given.max_version:
        found = f"found {given.min_version}, above max_version ({given.max_version})"
        yield Problem((_AT, "min_version"), f"{found}; allowed: a version that is not above it")
    if len(given.curve_preferences) > 1:
        message = (
            f"found {len(given.curve_preferences)} curves; allowed: one curve, or no curve_preferences for all of them"
        )
        yield Problem((_AT, "curve_preferences"), message)
    if given.cipher_suites and given.max_version == "TLS12" and not _of_12(given.cipher_suites):
        message = "found only suites of TLS 1.3, which max_version excludes; allowed: at least one suite of TLS 1.2"
        yield Problem((_AT, "cipher_suites"), message)


def _one_of(name: str, written: Collection[str], allowed: str) -> Iterator[Problem]:
    both = [key for key in (name, f"{name}_file") if key in written]
    if not both:
        yield Problem((_AT, f"{name}_file"), f"required, but missing; allowed: {allowed}")
    elif len(both) == 2:
        yield Problem((_AT, name), f"found both {name} and {name}_file; allowed: one of them")


def _client_problems(given: TlsServer, written: Collection[str]) -> Iterator[Problem]:
    authority = [key for key in ("client_ca", "client_ca_file") if key in written]
    verifies = given.client_auth_type not in _NO_AUTH
    words = " or ".join(_AUTH[len(_NO_AUTH) :])
    if len(authority) == 2:
        yield Problem((_AT, "client_ca"), "found both client_ca and client_ca_file; allowed: one of them")
    elif authority and not verifies:
        message = f"found an authority, but no certificates are requested; allowed: {words} as client_auth_type"
        yield Problem((_AT, authority[0]), message)
    elif verifies and not authority:
        message = (
            "required, but missing: without it, certificates of any public authority would be accepted; "
            "allowed: the path of the PEM file with the authorities of the clients"
        )
        yield Problem((_AT, "client_ca_file"), message)
    if "client_allowed_sans" in written and given.client_auth_type != "RequireAndVerifyClientCert":
        message = "found names, but certificates are optional; allowed: names with RequireAndVerifyClientCert"
        yield Problem((_AT, "client_allowed_sans"), message)
    elif "client_allowed_sans" in written and not given.client_allowed_sans:
        found = "nothing" if given.client_allowed_sans is None else "an empty list"
        yield Problem((_AT, "client_allowed_sans"), f"found {found}; allowed: a list of at least one name")


@dataclass(frozen=True, slots=True)
class Pair(HoldsSecrets):
    """The server's certificate with its chain, and the key that belongs to it."""

    cert: bytes = field(repr=False)
    key: bytes = field(repr=False)


def read_pair(settings: TlsServer) -> tuple[Pair | None, list[Problem]]:
    """Read the certificate and its key; if they are invalid, return the errors."""
    (cert, problems), (key, more) = settings.read("cert"), settings.read("key")
    problems += more
    if not problems:
        problems += _pair_problems(settings, cert, key)
    return (None if problems else Pair(cert, key)), problems


def make_context(settings: TlsServer, pair: Pair | None) -> tuple[ssl.SSLContext, list[Problem]]:
    """Return the context for a pair; it must not be used if there are problems."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = (
        _VERSIONS[word] for word in (settings.min_version, settings.max_version)
    )
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if not settings.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    if settings.cipher_suites:
        if of_12 := _of_12(settings.cipher_suites):
            context.set_ciphers(":".join(of_12))
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
    if settings.curve_preferences:
        context.set_ecdh_curve(_CURVES[settings.curve_preferences[0]])
    problems = _verify_clients(context, settings)
    if pair is not None:
        _load(context, pair)
    return context, problems


def _of_12(suites: Sequence[str]) -> list[str]:
    return [_CIPHERS[suite] for suite in suites if suite in _CIPHERS]


def _verify_clients(context: ssl.SSLContext, settings: TlsServer) -> list[Problem]:
    if settings.client_auth_type in _NO_AUTH:
        return []
    required = settings.client_auth_type == "RequireAndVerifyClientCert"
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    # An authority in the file is trusted, also one that another authority has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # A resumed session is not verified again: there are no tickets. Sessions of TLS 1.2 that the server keeps cannot be
    # switched off; they end with the context, which is replaced when the files change.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.sslobject_class = _checking(settings.client_allowed_sans)
    pem, problems = settings.read("client_ca")
    if not problems and not _load_authorities(context, pem):
        message = "found no usable certificate; allowed: those of the clients' authorities, in PEM"
        problems.append(Problem((_AT, settings.key_of("client_ca")), message))
    return problems


def _load_authorities(context: ssl.SSLContext, pem: bytes) -> bool:
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", errors="ignore"))
    except (ssl.SSLError, ValueError):
        return False
    return context.cert_store_stats()["x509"] > 0


def _pair_problems(settings: TlsServer, cert: bytes, key: bytes) -> list[Problem]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if not _load_authorities(context, cert):
        message = "found no usable certificate; allowed: the server's, followed by its chain, in PEM"
        return [Problem((_AT, settings.key_of("cert")), message)]
    try:
        _load(context, Pair(cert, key))
    except _EncryptedKeyError:
        reason = "it is encrypted"
    except ssl.SSLError as error:
        known = {"KEY_VALUES_MISMATCH": "it does not belong to the certificate", "": "it is not a key in PEM"}
        reason = error.reason or ""
        reason = known.get(reason, reason.replace("_", " ").lower())
    else:
        return []
    message = f"found an unusable key ({reason}); allowed: the private key of the certificate, in PEM"
    return [Problem((_AT, settings.key_of("key")), message)]


class _EncryptedKeyError(Exception):
    """A key that only a passphrase opens."""


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    def refuse() -> str:  # without it OpenSSL would ask at the terminal
        raise _EncryptedKeyError

    with _as_path(pair.cert) as cert, _as_path(pair.key) as key:
        context.load_cert_chain(cert, key, password=refuse)


@contextlib.contextmanager
def _as_path(content: bytes) -> Iterator[str]:
    """Yield a path from which OpenSSL can read a text once: it accepts keys only as files. On Linux, the path is not on
    disk.

    The original file is not read again, because it may have been renewed since it was checked.
    """
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("pem"), "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor
            file.write(content)
            yield f"/proc/self/fd/{file.fileno()}"
    else:  # pragma: no cover - where developers work, but no server
        with tempfile.NamedTemporaryFile() as kept:
            kept.write(content)
            kept.flush()
            yield kept.name


def names_of(certificate: dict[str, Any] | None) -> frozenset[str]:
    """Return the alternative names of a certificate as `getpeercert()` gives it: hosts, addresses, mail, URIs."""
    names = (certificate or {}).get("subjectAltName", ())
    kinds = {"DNS", "IP Address", "email", "URI"}
    return frozenset(_same(value.strip()) if kind == "IP Address" else value for kind, value in names if kind in kinds)


def _has_expired(certificate: dict[str, Any]) -> bool:
    return ssl.cert_time_to_seconds(certificate["notAfter"]) < time.time()


def _same(name: str) -> str:
    """Write an address in the one way that compares equal; other names stay."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _checking(sans: Sequence[str] | None) -> type[ssl.SSLObject]:
    """Return the class for connections whose handshake fails for a client with none of these alternative names, and
    for one whose certificate has expired since its session began."""
    allowed = None if sans is None else frozenset(map(_same, sans))

    class Checking(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            certificate = self.getpeercert()
            if self.session_reused and certificate and _has_expired(certificate):
                raise ssl.SSLCertVerificationError(1, "the client's certificate has expired")
            if allowed is not None and not names_of(certificate) & allowed:
                raise ssl.SSLCertVerificationError(1, "the client's certificate has none of the allowed names")

    return Checking
