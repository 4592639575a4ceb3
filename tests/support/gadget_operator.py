"""A small kopf operator of gadgets, run by test_kopf.py as `kopf run`."""

from __future__ import annotations

from typing import Any

import kopf

GADGETS = ("clients.test", "v1", "gadgets")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True
    settings.persistence.finalizer = "clients.test/kopf"


@kopf.on.create(*GADGETS)
def made(body: kopf.Body, spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> dict[str, Any]:
    kopf.event(body, type="Normal", reason="Made", message="the gadget was seen")
    patch.status["size"] = spec["size"]
    return {"made": True}


@kopf.on.update(*GADGETS, field="spec.size")
def resized(old: Any, new: Any, patch: kopf.Patch, **_: Any) -> None:
    patch.status["resized"] = f"{old} to {new}"


@kopf.on.delete(*GADGETS)
def ended(body: kopf.Body, **_: Any) -> None:
    kopf.event(body, type="Normal", reason="Ended", message="the gadget was let go")
