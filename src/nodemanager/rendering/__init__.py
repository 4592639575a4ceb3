"""Rendering of untrusted text, in a process that has no secrets and few resources.

`child` is that process, `confinement` what it gives up, `process` the talk with it from here, `renderer`
what other packages use. A caller that may start programs passes in how: this package cannot.
"""
