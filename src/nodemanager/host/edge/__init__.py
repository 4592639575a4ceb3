"""Hosts of edge sites: bonds, DRBD, Kairos. Imported only by agents with --edge.

Observers are functions of a root folder and a runner; they parse in pure functions.
"""
