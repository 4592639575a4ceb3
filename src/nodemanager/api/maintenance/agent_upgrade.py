"""The step that replaces the program of the agent itself."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.kube.hints import DURATION_MAX, POSITIVE_DURATION, PRINTABLE, WORD, Rule, meta
from nodemanager.kube.objects import Struct

_SHA256: Final = "^[0-9a-f]{64}$"


class AgentUpgradeAction(Struct):
    """Another version of the agent, which has to prove itself, or the old one comes back."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.unsigned) || !self.unsigned || has(self.sha256) && size(self.sha256) > 0",
            "must be given: without a signature, a digest says which program is meant",
            ".sha256",
        ),
    )

    version: Annotated[
        str,
        meta("The version that it has to be.", WORD, pattern=PRINTABLE, required=True, min_length=1,
             max_length=64),
    ] = ""  # fmt: skip
    url: Annotated[
        str,
        meta("Where the program is: http, https, or a path of the host. {version} and {target}, such as "
             "linux-amd64, are filled in by the host. Its signature, of minisign, is beside it, with "
             ".minisig at the end.",
             Rule("self.startsWith('http://') || self.startsWith('https://') || self.startsWith('/')"
                  " || self.startsWith('$(params.')", "must be http://, https:// or a whole path"),
             pattern=PRINTABLE, required=True, min_length=1, max_length=2048),
    ] = ""  # fmt: skip
    sha256: Annotated[
        dict[str, Annotated[str, meta("The digest, in hexadecimal.", pattern=_SHA256, max_length=64)]],
        meta("Digests by target, such as linux-amd64; needed for what is not signed.", max_properties=16),
    ] = {}
    unsigned: Annotated[
        bool,
        meta("Take a program that nobody signed, by its digest. A host with keys of its own (release.pub) "
             "refuses that."),
    ] = False  # fmt: skip
    deadline: Annotated[
        str,
        meta("How long the host may be without an agent that works; 30s at least, 1h at most, default 3m.",
             Rule("self == '' || " + POSITIVE_DURATION.rule, POSITIVE_DURATION.message),
             max_length=DURATION_MAX),
    ] = ""  # fmt: skip
