"""Our identity for a server: kubeconfigs, tokens, certificates, plugins."""
