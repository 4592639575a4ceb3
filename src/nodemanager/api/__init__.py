"""Our kinds: their types, and the rules that hold for them.

Pure: no clock, no environment, no I/O. What is Kubernetes' own, the same without us, is in `kube`.
"""
