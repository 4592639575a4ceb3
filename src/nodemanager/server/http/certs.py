"""The server's own certificate authority, and the certificates that it signs.

Key and certificate of the authority are one file, so that they cannot be from different days. It is
made once and never written over: every kubeconfig out there trusts it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nodemanager.server.http import private_files

CA_LIFETIME: Final = timedelta(days=3650)
SERVING_LIFETIME: Final = timedelta(days=90)
CLIENT_LIFETIME: Final = timedelta(days=365)
CLOCK_SKEW: Final = timedelta(hours=14)
"""How far the clock of a client may be behind ours: one that is set to another time zone is by so much."""
MAX_NAME: Final = 64
"""Longest user or group name that X.509 has room for."""


class CertificateError(Exception):
    """A certificate cannot be made or used; the message says why."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    expires: datetime

    @property
    def pem(self) -> bytes:
        """Both in one text."""
        return self.key + self.certificate


@dataclass(frozen=True, slots=True)
class Authority:
    """The certificate authority of one data folder."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def pem(self) -> bytes:
        """The certificate that clients trust."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue_serving(self, names: Iterable[str], now: datetime) -> Issued:
        """Return a certificate for a server with these host names and IP addresses."""
        alternatives = [_general_name(name) for name in dict.fromkeys(names)]
        if not alternatives:
            raise CertificateError("cannot issue a serving certificate: no name was given")
        builder = self._builder(
            x509.Name([_attribute(NameOID.COMMON_NAME, "nodemanager")]), now, SERVING_LIFETIME
        )
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return self._finish(builder, ExtendedKeyUsageOID.SERVER_AUTH)

    def issue_client(self, user: str, groups: Sequence[str], now: datetime) -> Issued:
        """Return a certificate that names a user (CN) and their groups (O)."""
        attributes = [_attribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(_attribute(NameOID.COMMON_NAME, user))
        return self._finish(
            self._builder(x509.Name(attributes), now, CLIENT_LIFETIME), ExtendedKeyUsageOID.CLIENT_AUTH
        )

    def _builder(self, subject: x509.Name, now: datetime, lifetime: timedelta) -> x509.CertificateBuilder:
        # No certificate may last longer than the authority: clients would refuse it without saying why.
        expires = min(now + lifetime, self.certificate.not_valid_after_utc)
        if expires <= now:
            raise CertificateError("cannot issue a certificate: the certificate authority has expired")
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.certificate.subject)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(expires)
        )

    def _finish(self, builder: x509.CertificateBuilder, purpose: x509.ObjectIdentifier) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        public = self.key.public_key()
        certificate = (
            builder.public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        return Issued(pem, key_pem(key), certificate.not_valid_after_utc)


def load_or_create(path: Path, now: datetime) -> Authority:
    """Return the authority kept in a file; make one when there is none."""
    data = private_files.read(path)
    if data is None:
        private_files.create(path, _new_authority(now))
        data = private_files.read(path)  # what is there now, even if another process was faster
    authority = _parse(path, data or b"")
    if now >= authority.certificate.not_valid_after_utc:
        expired = authority.certificate.not_valid_after_utc.date().isoformat()
        raise CertificateError(
            f"cannot use the certificate authority in {path}: it expired on {expired}; move the file away to "
            "start with a new one, and hand out new kubeconfigs"
        )
    return authority


def _new_authority(now: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    # The name carries a random part: two authorities with one name confuse clients that trust both.
    serial = x509.random_serial_number()
    name = x509.Name([_attribute(NameOID.COMMON_NAME, f"nodemanager-ca-{serial % 16**8:08x}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)


def _parse(path: Path, data: bytes) -> Authority:
    try:
        key = serialization.load_pem_private_key(data, password=None)
        certificate = x509.load_pem_x509_certificate(data)
    except (ValueError, TypeError) as err:
        raise CertificateError(f"cannot use the certificate authority in {path}: it is damaged") from err
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise CertificateError(
            f"cannot use the certificate authority in {path}: key and certificate do not match"
        )
    return Authority(certificate, key)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as unencrypted PKCS #8."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    if not 0 < len(value) <= MAX_NAME:
        raise CertificateError(
            f"cannot put a name of {len(value)} characters into a certificate: 1 to {MAX_NAME} fit"
        )
    return x509.NameAttribute(oid, value)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as err:
        raise CertificateError(f"cannot issue a serving certificate for {name!r}: not a host name") from err


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
