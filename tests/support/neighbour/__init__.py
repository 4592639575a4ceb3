"""The evil neighbour: a user of a host who races its agent, and root who looks what came of it.

    places.py    where she lives, and what is declared there: the same for all below
    kernel.py    system calls that Python does not have
    tricks.py    what she does to a declared path, one function each
    grip.py      descriptors and mappings that she keeps
    mallory.py   her processes: they play tricks, swap what the agent stages, read all that they can
    rules.py     what must never be true, and what must be true when she rests: pure looking
    watch.py     root's process beside her, which looks all the while
    puppets.py   these processes, seen from outside of the host
    rounds.py    the run: race, rest, check, and again

All but the last two run inside of the host, with nothing but the standard library of its Python.
"""
