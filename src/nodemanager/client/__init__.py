"""The only way to reach a Kubernetes API.

Kubeconfig, credentials, transport, verbs and watches; no domain words."""
