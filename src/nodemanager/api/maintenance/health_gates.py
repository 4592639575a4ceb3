"""What must hold before a host is begun with, and before it counts as done."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.maintenance.disruption import OPTIONAL_DURATION
from nodemanager.kube.hints import API_VERSION, DURATION_MAX, KIND, NAME_MAX, PRINTABLE, Rule, meta
from nodemanager.kube.objects import Struct

_URL: Final = Rule("self.startsWith('http://') || self.startsWith('https://')", "must be http:// or https://")
OPERATORS: Final = ("<", "<=", ">", ">=", "==", "!=")


class ObjectGate(Struct):
    """An object of the API for which an expression must be true. The operator reads it, by its own rights."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.kind != 'Secret'",
            "must not be Secret: whoever may write gates would learn what is in it",
            ".kind",
        ),
    )

    api_version: Annotated[
        str,
        meta(
            "Its API version, such as apps/v1.",
            pattern=API_VERSION,
            min_length=1,
            max_length=253,
            required=True,
        ),
    ] = ""
    kind: Annotated[str, meta("Its kind.", pattern=KIND, min_length=1, max_length=63, required=True)] = ""
    name: Annotated[
        str,
        meta("Its name; $(host) is the name of the host.", min_length=1, max_length=NAME_MAX, required=True),
    ] = ""
    namespace: Annotated[
        str,
        meta(
            "Its namespace; default: that of the object with the gate; not for kinds without.", max_length=63
        ),
    ] = ""
    cel: Annotated[
        str,
        meta(
            "What must be true, in CEL; object is the object, such as object.status.readyReplicas >= 2.",
            min_length=1,
            max_length=4096,
            required=True,
        ),
    ] = ""


class HttpGate(Struct):
    """An address that must answer GET, to the operator, within 5 seconds. Redirects are not followed."""

    url: Annotated[
        str,
        meta(
            "The address; $(host) is the name of the host.",
            _URL,
            min_length=1,
            max_length=2048,
            required=True,
        ),
    ] = ""
    status: Annotated[int, meta("The status code that is wanted; default 200.", minimum=100, maximum=599)] = 0


class PrometheusGate(Struct):
    """An instant query to Prometheus, asked by the operator.

    With operator and value every result must compare so, and there must be one. Without, as in alerting
    rules: a vector holds if it has any result, whatever its value, and a scalar unless it is 0.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.operator) == has(self.value)", "goes with value, and value with it", ".operator"),
        Rule(
            "!has(self.emptyHolds) || !self.emptyHolds || has(self.operator)",
            "goes with operator and value only: without them an empty result never holds",
            ".emptyHolds",
        ),
    )

    url: Annotated[
        str,
        meta(
            "Where Prometheus is, such as http://prometheus.monitoring:9090.",
            _URL,
            min_length=1,
            max_length=2048,
            required=True,
        ),
    ] = ""
    query: Annotated[
        str, meta("The query; $(host) is the name of the host.", min_length=1, max_length=4096, required=True)
    ] = ""
    operator: Annotated[str, meta("How results are compared.", enum=OPERATORS)] = ""
    value: Annotated[
        str,
        meta(
            "With what, a number such as 0 or 0.95, in quotes.",
            pattern=r"^-?[0-9]+([.][0-9]+)?$",
            min_length=1,
            max_length=32,
        ),
    ] = ""
    empty_holds: Annotated[bool, meta("Whether no result at all is good, too.")] = False


class HealthGate(Struct):
    """Something that must hold: exactly one of its fields, and how long one waits for it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.alive) && self.alive, has(self.ready) && self.ready,"
            " has(self.configSetsHold) && self.configSetsHold, has(self.object), has(self.http),"
            " has(self.prometheus)].exists_one(given, given)",
            "must have exactly one of alive, ready, configSetsHold, object, http and prometheus",
        ),
    )

    name: Annotated[str, meta("What people call it.", pattern=PRINTABLE, max_length=63)] = ""
    alive: Annotated[bool, meta("The agent of the host is there.")] = False
    ready: Annotated[bool, meta("The Kubernetes Node of the host is Ready; holds where there is none.")] = (
        False
    )
    config_sets_hold: Annotated[bool, meta("All ConfigSets of the host hold.")] = False
    object: Annotated[ObjectGate | None, meta("An object of the API is as wanted.", atomic=True)] = None
    http: Annotated[HttpGate | None, meta("An address answers.", atomic=True)] = None
    prometheus: Annotated[
        PrometheusGate | None, meta("A query to Prometheus is answered as wanted.", atomic=True)
    ] = None
    timeout: Annotated[
        str,
        meta(
            "After the work: how long one waits for it before the host counts as failed; default 10m. "
            "Before it, one "
            "waits as long as it takes.",
            OPTIONAL_DURATION,
            max_length=DURATION_MAX,
        ),
    ] = ""


class Health(Struct):
    """What must hold before a host is begun with, and before it counts as done."""

    before: Annotated[
        list[HealthGate], meta("Before a host is begun with; alive is always asked for.", max_items=16)
    ] = []
    after: Annotated[
        list[HealthGate],
        meta(
            "Before it counts as done; that it is alive, and Ready if it is a Node, is always asked for.",
            max_items=16,
        ),
    ] = []
