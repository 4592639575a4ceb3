"""The same as `ours`, written for the official Python client as its documentation shows it.

python -m bench.children.official KUBECONFIG SELECTOR
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

from bench import resident

TIMEOUT = 60


def main(kubeconfig: str, selector: str) -> None:
    """List, watch, and say what it took until the first event after the list."""
    # By name, so that the types are checked alike whether it is installed or not.
    client, config, watch = (import_module(f"kubernetes.{name}") for name in ("client", "config", "watch"))
    config.load_kube_config(kubeconfig)
    api = client.CustomObjectsApi()
    kind = ("common.nodemanager", "v1", "managednodes")
    listed: Any = api.list_cluster_custom_object(*kind, label_selector=selector)
    cache = {item["metadata"]["name"]: item for item in listed["items"]}
    stream = watch.Watch()
    for event in stream.stream(
        api.list_cluster_custom_object,
        *kind,
        label_selector=selector,
        resource_version=listed["metadata"]["resourceVersion"],
        _request_timeout=TIMEOUT,
    ):
        cache[event["object"]["metadata"]["name"]] = event["object"]
        at, cpu = time.monotonic(), time.process_time()
        print(f'{{"kilobytes": {resident.kilobytes()}, "cpu": {cpu}, "at": {at}}}')
        stream.stop()
        return


if __name__ == "__main__":
    main(*sys.argv[1:3])
