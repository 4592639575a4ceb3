"""Functions of gomplate that are missing here, by name, with the reason, so that errors can explain it."""

from __future__ import annotations

from typing import Final

_HOST = "templates see the data of the API only, not the host or its files"
_NETWORK = "templates cannot reach the network"
_RANDOM = "it gives something else each time, so the host would never be as declared"
_NOW = "it depends on the time, so the host would never be as declared"
_KEYS = "keys and ciphertexts come from a Secret: put them there and use secretRefs"

REFUSED: Final[dict[str, str]] = {
    **dict.fromkeys(("env.*", "getenv", "env.Getenv", "env.ExpandEnv", "env.Env", "env.HasEnv"), _HOST),
    **dict.fromkeys(("file.*", "include", "sockaddr.*"), _HOST),
    **dict.fromkeys(("filepath.Rel", "filepath.VolumeName"), _HOST),
    **dict.fromkeys(("aws.*", "gcp.*", "defineDatasource"), _NETWORK),
    **dict.fromkeys(("ec2meta", "ec2dynamic", "ec2tag", "ec2tags", "ec2region"), _NETWORK),
    **dict.fromkeys(
        (
            "net.LookupIP",
            "net.LookupIPs",
            "net.LookupCNAME",
            "net.LookupSRV",
            "net.LookupSRVs",
            "net.LookupTXT",
        ),
        _NETWORK,
    ),
    **dict.fromkeys(("random.*", "uuid.V1", "uuid.V4", "uuid.V7", "crypto.Bcrypt"), _RANDOM),
    **dict.fromkeys(("time.*",), _NOW),
    **dict.fromkeys(
        ("crypto.AES*", "crypto.EncryptAES", "crypto.DecryptAES*", "crypto.RSA*", "crypto.ECDSA*"), _KEYS
    ),
    **dict.fromkeys(("crypto.Ed25519*", "crypto.DerivePublicKey", "crypto.Yescrypt*"), _KEYS),
    **dict.fromkeys(("coll.JQ", "jq", "coll.JSONPath", "jsonpath"), "use index, range and coll.* instead"),
    **dict.fromkeys(("data.CUE", "cue", "data.ToCUE", "toCUE"), "CUE is a language of its own"),
    **dict.fromkeys(("data.ToTOML", "toTOML"), "write the TOML out in the template"),
    **dict.fromkeys(
        ("data.ToCSV", "toCSV", "data.CSVBy*", "csvByRow", "csvByColumn"), "use data.CSV and range"
    ),
    **dict.fromkeys(("semver.*",), "compare versions where they are chosen, in the ConfigSet"),
    "call": "templates have no functions as values",
    "net.ParseRange": "use net.CIDRHost and net.CIDRSubnets",
}
"""Names, or beginnings of names that end in *, with the reason."""


def reason(name: str) -> str | None:
    """Return why a function is not offered on purpose, or None if it just does not exist."""
    exact = REFUSED.get(name)
    if exact is not None:
        return exact
    return next(
        (why for stem, why in REFUSED.items() if stem.endswith("*") and name.startswith(stem[:-1])), None
    )
