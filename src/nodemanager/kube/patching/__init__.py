"""Patches, and the owners of fields after a write.

`json_patch`, `merge_patch` and `strategic_merge` change an object as the client asks (`strategies` says
which lists the last one merges). `server_side_apply` merges by `merge_types` and keeps `managed_fields`,
whose paths are `field_sets`.
"""
