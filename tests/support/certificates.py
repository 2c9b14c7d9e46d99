"""Certificates for TLS servers of tests: valid, expired and self-signed ones."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import warnings
from pathlib import Path

import time_machine
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority. `file` is its certificate.

    The certificate of a `bare` authority has no key usage, like those of `openssl req -x509`.
    """

    def __init__(self, folder: Path, name: str = "authority", *, bare: bool = False) -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _build(name, self._key, name, self._key, ca=True, bare=bare)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server(
        self, *, host: str = "127.0.0.1", expired: bool = False, self_signed: bool = False, highest: object = None
    ) -> ssl.SSLContext:
        """Return the TLS context of a server with a certificate for `host`, which may be expired or self-signed.

        `highest` is the highest TLS version of the server.
        """
        chain, pem = self.issue("server", host=host, expired=expired, self_signed=self_signed)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, pem)
        if isinstance(highest, ssl.TLSVersion):
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the test needs the deprecated version
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = highest
        return context

    def issue(
        self, file: str, *, host: str = "127.0.0.1", expired: bool = False, self_signed: bool = False
    ) -> tuple[Path, Path]:
        """Write a certificate for `host` and its new key, and return both files.

        `host` is a name, an IP address, a mail address or a URI.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, by = (host, key) if self_signed else (self._name, self._key)
        certificate = _build(host, key, issuer, by, host=host, expired=expired)
        chain, pem = self._folder / f"{self._name}-{file}.pem", self._folder / f"{self._name}-{file}-key.pem"
        chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pem.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return chain, pem


def _build(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    by: ec.EllipticCurvePrivateKey,
    *,
    ca: bool = False,
    bare: bool = False,
    host: str = "",
    expired: bool = False,
) -> x509.Certificate:
    real = time_machine.escape_hatch  # OpenSSL's clock cannot be stepped
    clock = real.datetime.datetime if real.is_travelling() else datetime.datetime
    now = clock.now(datetime.UTC) - (2 * _DAY if expired else 0 * _DAY)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if ca and not bare:
        builder = builder.add_extension(_signs_certificates(), critical=True)
    if host:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
    return builder.sign(by, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    if "://" in host:
        return x509.UniformResourceIdentifier(host)
    if "@" in host:
        return x509.RFC822Name(host)
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signs_certificates() -> x509.KeyUsage:
    unused = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **unused)
