"""Who we are for a server: kubeconfigs, tokens, certificates, plugins."""
