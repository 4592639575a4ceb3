"""Hosts of edge sites: bonds, DRBD, Kairos. Imported only by agents that are told to look at these.

Observers are functions of a root folder and a runner; what they parse, they parse in pure functions.
"""
