"""The audit log, as kube-apiserver writes it: which requests it tells of, what it tells, and its files."""
