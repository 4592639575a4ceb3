"""The kinds that are served: built in, with their own behaviour, or defined by a CRD."""
