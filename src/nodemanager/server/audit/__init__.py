"""The audit log, as kube-apiserver writes it: which requests it records, what of them, and its files."""
