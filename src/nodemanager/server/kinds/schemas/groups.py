"""The small groups: coordination, events, policy and RBAC."""

from __future__ import annotations

from nodemanager.server.kinds.schemas.notation import SchemaPackage

COORDINATION = SchemaPackage(
    "io.k8s.api.coordination.v1",
    "coordination.k8s.io",
    """
Lease kind list | A lock or heartbeat.
  spec LeaseSpec | Desired state.
LeaseSpec | Who holds a lease, and for how long.
  acquireTime MicroTime | When the present holder got it.
  holderIdentity string | Who holds it.
  leaseDurationSeconds int32 | Seconds others wait after the last renewal.
  leaseTransitions int32 | How often the holder changed.
  preferredHolder string | Who shall get it next.
  renewTime MicroTime | When it was last renewed.
  strategy string | How the holder is chosen.
""",
)
"""Leases."""

EVENTS = SchemaPackage(
    "io.k8s.api.events.v1",
    "events.k8s.io",
    """
Event kind list | Something that happened to an object, kept for a while.
  action string | What was done or failed.
  deprecatedCount int32 | The older form of the count in the series.
  deprecatedFirstTimestamp Time | The older form of the first time.
  deprecatedLastTimestamp Time | The older form of the last time.
  deprecatedSource core.EventSource | The older form of the reporter.
  eventTime! MicroTime | When it was first observed.
  note string | Explanation for people.
  reason string | One word for programs that says why.
  regarding core.ObjectReference | The object it is about.
  related core.ObjectReference | A second object that plays a part.
  reportingController string | Name of the controller that reports it.
  reportingInstance string | Which instance of the controller.
  series EventSeries | Set when the event repeats.
  type string | Normal or Warning.
EventSeries | Repetitions of one event.
  count! int32 | How often so far.
  lastObservedTime! MicroTime | When it was last seen.
""",
)
"""Events in their newer form."""

POLICY = SchemaPackage(
    "io.k8s.api.policy.v1",
    "policy",
    """
PodDisruptionBudget kind list | How many pods may be missing at a time.
  spec PodDisruptionBudgetSpec | Desired state.
  status PodDisruptionBudgetStatus | Present state, as last observed.
PodDisruptionBudgetSpec | What a budget protects.
  maxUnavailable IntOrString | The most that may be missing, as number or percentage.
  minAvailable IntOrString | The fewest that must stay, as number or percentage.
  selector LabelSelector patch=replace | Which pods.
  unhealthyPodEvictionPolicy string enum=AlwaysAllow,IfHealthyBudget | When unready pods may be evicted.
PodDisruptionBudgetStatus | What a budget allows right now.
  conditions [Condition] map=type patch=merge:type | Aspects of the present state, one per type.
  currentHealthy int32 | Pods that are ready.
  desiredHealthy int32 | Pods that must stay ready.
  disruptedPods {Time} | Pods being evicted, with the time.
  disruptionsAllowed int32 | How many may be evicted now.
  expectedPods int32 | Pods that are counted.
  observedGeneration int64 | Generation of the object that this was made from.
Eviction kind | Asks a pod to leave its node, within its budgets.
  deleteOptions DeleteOptions | How to delete the pod.
""",
)
"""Disruption budgets and evictions."""

RBAC = SchemaPackage(
    "io.k8s.api.rbac.v1",
    "rbac.authorization.k8s.io",
    """
Role kind list | Permissions within a namespace.
  rules [PolicyRule] atomic | What is permitted.
PolicyRule | Verbs on resources or URLs.
  apiGroups [string] atomic | API groups; * is all.
  nonResourceURLs [string] atomic | URL paths that are no resources; * at the end is any rest.
  resourceNames [string] atomic | Names the rule is limited to.
  resources [string] atomic | Resources, with a subresource after a slash; * is all.
  verbs! [string] atomic | Verbs; * is all.
ClusterRole kind list | Permissions in the whole cluster.
  aggregationRule AggregationRule | Collects the rules from other roles.
  rules [PolicyRule] atomic | What is permitted.
AggregationRule | Which roles to collect rules from.
  clusterRoleSelectors [LabelSelector] atomic | Labels of those roles.
RoleBinding kind list | Gives a role to subjects within a namespace.
  roleRef! RoleRef | The role; it cannot be changed.
  subjects [Subject] atomic | Who gets it.
RoleRef atomic | The role that a binding gives.
  apiGroup string | API group of the kind.
  kind! string | Kind of the object.
  name! string | Name.
Subject atomic | A user, a group or a service account.
  apiGroup string | API group of the kind.
  kind! string | User, Group or ServiceAccount.
  name! string | Name.
  namespace string | Namespace.
ClusterRoleBinding kind list | Gives a role to subjects in the whole cluster.
  roleRef! RoleRef | The role; it cannot be changed.
  subjects [Subject] atomic | Who gets it.
""",
)
"""Roles and who has them."""
