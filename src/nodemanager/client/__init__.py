"""The only way to reach a Kubernetes API.

Kubeconfig, credentials, transport, verbs and watches; no domain words, except for tokens and kubeconfigs of
hosts (`auth`), which are named as `api.rights` says."""
