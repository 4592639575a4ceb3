"""Rendering what anybody may have written, in a process that has nothing to lose and little to spend.

`child` is that process, `confinement` what it gives up, `process` how it is talked to from here, `renderer`
what everybody else uses. It is started through whoever may start programs: this package cannot.
"""
