"""Random writes to a PodTemplate: a built-in kind whose lists all may change."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.patching.strategies import Strategy
from nodemanager.server.kinds import builtin_schemas
from support.patch_steps import MANAGERS, Step

TEMPLATES: Resource[Untyped] = Resource("", "v1", "PodTemplate", "podtemplates", dict)
_POD = builtin_schemas.strategy("", "v1", "Pod")
STRATEGY = Strategy(fields={"metadata": _POD.of("metadata"), "template": _POD})
FIRST: Untyped = {
    "metadata": {"name": "t"},
    "template": {"metadata": {"labels": {"a": "x"}}, "spec": {"containers": [{"name": "a", "image": "x"}]}},
}
_KEYS = {"containers": "name", "volumes": "name", "hostAliases": "ip", "imagePullSecrets": "name"}
_NAMES = {
    "containers": "abcd",
    "volumes": "uvw",
    "hostAliases": ("10.0.0.1", "10.0.0.3"),
    "imagePullSecrets": "rst",
    "env": "KLM",
}


@dataclass(slots=True)
class TemplateSteps:
    """A seeded source of writes, most of which the server finds valid."""

    seed: int
    _random: random.Random = field(init=False)
    _mistakes: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def step(self, live: Untyped) -> Step:
        """Return the next write to a template."""
        pick = self._random
        manager = pick.choice(MANAGERS)
        kinds = ("strategic", "apply", "force", "merge", "json", "update")
        kind = pick.choices(kinds, (10, 3, 2, 2, 1, 1))[0]
        if kind == "strategic":
            return Step(kind, manager, self._strategic())
        if kind == "json":
            return Step(kind, manager, self._operations())
        body = self._body()
        if kind == "update":
            meta = {name: live["metadata"][name] for name in ("name", "namespace", "resourceVersion")}
            body = {
                "apiVersion": "v1",
                "kind": "PodTemplate",
                **body,
                "metadata": {**meta, **body["metadata"]},
            }
            wishes: tuple[list[Untyped] | None, ...] = (None, [], [{}])
            wish = pick.choices(wishes, (4, 1, 1))[0]
            if wish is not None:
                body["metadata"]["managedFields"] = wish
        return Step(kind, manager, body)

    def _some(self, choices: Any, least: int = 0) -> list[Any]:
        return self._random.sample(list(choices), self._random.randint(least, min(3, len(choices))))

    def _strings(self) -> dict[str, str]:
        return {name: self._random.choice("xy") for name in self._some("abc")}

    def _containers(self, least: int = 1) -> list[Untyped]:
        pick = self._random
        made = []
        for name in self._some("abcd", least):
            container: Untyped = {"name": name, "image": pick.choice("xy")}
            if pick.random() < 0.4:
                container["env"] = [{"name": key, "value": pick.choice("xy")} for key in self._some("KLM")]
            if pick.random() < 0.3:
                container["ports"] = [{"containerPort": port} for port in self._some((80, 443, 53))]
            if pick.random() < 0.3:
                container["args"] = self._some("pq")
            if pick.random() < 0.3:
                container["resources"] = {"limits": {"cpu": pick.choice(("1", "500m"))}}
            made.append(container)
        return made

    def _volumes(self) -> list[Untyped]:
        kinds: list[Untyped] = [{"emptyDir": {}}, {"hostPath": {"path": "/x", "type": ""}}]
        return [{"name": name, **self._random.choice(kinds)} for name in self._some("uvw")]

    def _spec(self) -> Untyped:
        pick = self._random
        spec: Untyped = {}
        if pick.random() < 0.5:
            spec["volumes"] = self._volumes()
        if pick.random() < 0.3:
            spec["nodeSelector"] = self._strings()
        if pick.random() < 0.3:
            spec["tolerations"] = [{"key": key, "operator": "Exists"} for key in self._some("mn")]
        if pick.random() < 0.3:
            spec["hostAliases"] = [
                {"ip": ip, "hostnames": self._some(("h1", "h2"), 1)}
                for ip in self._some(("10.0.0.1", "10.0.0.2", "10.0.0.3"))
            ]
        if pick.random() < 0.3:
            spec["imagePullSecrets"] = [{"name": name} for name in self._some("rst")]
        if pick.random() < 0.2:
            spec["terminationGracePeriodSeconds"] = pick.choice((30, 10))
        return spec

    def _metadata(self) -> Untyped:
        return {"labels": self._strings(), "finalizers": self._some(("example.com/a", "example.com/b"))}

    def _body(self) -> Untyped:
        spec = {"containers": self._containers(), **self._spec()}
        return {"metadata": self._metadata(), "template": {"metadata": {"labels": {"a": "x"}}, "spec": spec}}

    def _strategic(self) -> Untyped:
        pick = self._random
        self._mistakes = int(pick.random() < 0.15)
        spec = self._spec()
        if pick.random() < 0.7:
            spec["containers"] = self._containers(0)
        for name, key in _KEYS.items():
            if name in spec:
                self._direct(spec, name, key)
        if "nodeSelector" in spec and pick.random() < 0.4:
            spec["nodeSelector"] = pick.choice((None, {"$patch": "delete"}, {"a": "z", "$patch": "replace"}))
        if not self._mistakes and pick.random() < 0.03:
            spec["$retainKeys"] = pick.choice((["containers"], [*spec, "containers"], "x"))
        body: Untyped = {"template": {"spec": spec}}
        if pick.random() < 0.4:
            body["metadata"] = self._metadata()
            if pick.random() < 0.5:
                # Adding what is deleted in the same patch has no defined order.
                body["metadata"]["finalizers"] = self._some(["example.com/b"])
                body["metadata"]["$deleteFromPrimitiveList/finalizers"] = ["example.com/a"]
            elif body["metadata"]["finalizers"]:
                body["metadata"]["finalizers"].sort(reverse=True)
                body["metadata"]["$setElementOrder/finalizers"] = ["example.com/b", "example.com/a"]
        return body

    def _direct(self, spec: Untyped, name: str, key: str) -> None:
        """Put directives into a list that merges by a key."""
        pick = self._random
        items = spec[name]
        for item in items:
            self._direct_item(item, name)
        if items and self._mistakes and pick.random() < 0.5:
            self._mistakes -= 1
            self._spoil(spec, name, key)
        elif pick.random() < 0.1:
            items.append({"$patch": "replace"})
        elif pick.random() < 0.5:
            named = [item[key] for item in items if "$patch" not in item]
            for more in self._some(_NAMES[name]):
                if more not in [item[key] for item in items]:
                    named.insert(pick.randint(0, len(named)), more)
            if named and items:
                spec[f"$setElementOrder/{name}"] = [{key: value} for value in named]

    def _direct_item(self, item: Untyped, name: str) -> None:
        chance = self._random.random()
        if chance < 0.2:
            item["$patch"] = "delete"
        elif name == "volumes" and chance < 0.6:
            item["$retainKeys"] = [one for one in item if not one.startswith("$")]
        elif "env" in item and chance < 0.6:
            self._direct(item, "env", "name")

    def _spoil(self, spec: Untyped, name: str, key: str) -> None:
        """Make one mistake: with several, a server may report whichever it finds first."""
        pick = self._random
        item = pick.choice(spec[name])
        match pick.choice(("directive", "key", "order")):
            case "directive":
                item["$patch"] = pick.choice(("merge", "bogus"))
            case "key":
                del item[key]
            case "order":
                spec[f"$setElementOrder/{name}"] = [{key: "none"}]

    def _operations(self) -> list[Untyped]:
        containers: Untyped = {
            "op": "replace",
            "path": "/template/spec/containers",
            "value": self._containers(),
        }
        label: Untyped = {"op": "add", "path": "/template/metadata/labels/a~1b", "value": "x"}
        return [self._random.choice((containers, label))]
