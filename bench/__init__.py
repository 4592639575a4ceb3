"""Benchmarks: what our code costs beside the least it could cost, as ratios within one run.

No part of what is installed; `make bench` runs it. Modules that measure memory import this
package, so nothing may be imported here.
"""
