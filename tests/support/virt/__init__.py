"""KubeVirt and CDI that exist in a test only: controllers that move objects of a real API as theirs do.

They follow what is known of KubeVirt v1 and CDI v1beta1 from their sources and manuals, as far as a site that
is only watched shows it: virtual machines that start and stop, migrations, drains, lost nodes, and volumes
that are filled. Launcher pods, budgets and evictions are real objects, so that the server itself refuses to
evict.

Not in them: snapshots, migrations of volumes, hotplug, the subresources of virt-api (`asking` does what those
do), and all of the guest. A launcher pod is there from when it has a node: nothing here binds pods.

Nothing moves by itself: `running.step` moves every object by one phase at most. `running.watching` does that
for every change, as long as there is something to do.
"""
