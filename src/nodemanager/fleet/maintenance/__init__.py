"""What happens to which host of a maintenance, and when: decided here, carried out by the operator. Pure.

    runs        which operations are due            steps    what is done to a host, as one list
    decide      which hosts begin now, which wait   visits   what comes next for a host that was begun with

`plan` says beforehand what that will be; every wait has a code of `reasons`.
"""
