"""What all kinds share: metadata, selectors, conditions, statuses and options."""

from __future__ import annotations

from nodemanager.server.kinds.schemas.notation import META, Schema, SchemaPackage

OBJECTS = SchemaPackage(
    META,
    "",
    """
ObjectMeta | What every stored object has.
  annotations {string} | Notes of programs; not for selection.
  creationTimestamp Time | When it was created.
  deletionGracePeriodSeconds int64 | Seconds it may take to end.
  deletionTimestamp Time | When it shall be gone; set by the server.
  finalizers [string] set patch=merge | Who must clean up before it is removed.
  generateName string | Prefix of a name that the server makes unique.
  generation int64 | Counts changes of the desired state.
  labels {string} | Keys and values to select objects by.
  managedFields [ManagedFieldsEntry] atomic | Who owns which fields.
  name string | Name, unique within kind and namespace.
  namespace string | Namespace it lives in.
  ownerReferences [OwnerReference] map=uid patch=merge:uid | Objects it depends on and goes with.
  resourceVersion string | Opaque version; changes with every write.
  selfLink string | No longer used.
  uid string | Id in time and space, never used again.
OwnerReference atomic | An object that owns this one.
  apiVersion! string | Group and version.
  blockOwnerDeletion boolean | Whether the owner waits for it in a foreground deletion.
  controller boolean | Whether this owner manages it.
  kind! string | Kind of the object.
  name! string | Name.
  uid! string | Unique id.
ManagedFieldsEntry | Which fields one manager owns.
  apiVersion string | Version in which the fields are written.
  fieldsType string | Format of the fields: FieldsV1.
  fieldsV1 FieldsV1 | The fields, as a tree.
  manager string | Name of the manager.
  operation string | Apply or Update.
  subresource string | Subresource it wrote to.
  time Time | When this entry last changed.
ListMeta | What holds for a list as a whole.
  continue string | Token that asks for the next page.
  remainingItemCount int64 | How many are on later pages.
  resourceVersion string | Version of the whole list; watch from here.
  selfLink string | No longer used.
LabelSelector atomic | Which objects are meant, by their labels; all parts must hold.
  matchExpressions [LabelSelectorRequirement] atomic | Requirements on labels.
  matchLabels {string} | Labels with their exact values.
LabelSelectorRequirement | A requirement on a label.
  key! string | Key.
  operator! string | How to compare.
  values [string] atomic | Values to compare with.
FieldSelectorRequirement | A requirement on a field.
  key! string | Key.
  operator! string | How to compare.
  values [string] atomic | Values to compare with.
Condition | One aspect of the state of an object.
  lastTransitionTime! Time | When the status last changed.
  message! string | Explanation for people.
  observedGeneration int64 | Generation of the object that this was made from.
  reason! string | One word for programs that says why.
  status! string | True, False or Unknown.
  type! string | Name of the aspect.
Status typed | How a request ended.
  apiVersion string | Group and version.
  code int32 | HTTP status code.
  details StatusDetails | More about the reason.
  kind string | Kind of the object.
  message string | Explanation for people.
  metadata ListMeta | Standard metadata of a list.
  reason string | One word for programs that says why.
  status string | Success or Failure.
StatusDetails | More about a failure.
  causes [StatusCause] atomic | Each reason for the failure.
  group string | API group.
  kind string | Kind of the object.
  name string | Name.
  retryAfterSeconds int32 | When to try again.
  uid string | Unique id.
StatusCause | One reason for a failure.
  field string | Field that is wrong.
  message string | Explanation for people.
  reason string | One word for programs that says why.
DeleteOptions typed | How to delete.
  apiVersion string | Group and version.
  dryRun [string] atomic | "All" changes nothing.
  gracePeriodSeconds int64 | Seconds to end in peace; 0 is at once.
  ignoreStoreReadErrorWithClusterBreakingPotential boolean | Whether to delete what cannot be read.
  kind string | Kind of the object.
  orphanDependents boolean | The older form of propagationPolicy.
  preconditions Preconditions | What must hold for the deletion.
  propagationPolicy string | Orphan, Background or Foreground: what becomes of dependents.
Preconditions | What must hold for an operation.
  resourceVersion string | Version it must have.
  uid string | Id it must have.
WatchEvent typed | One change, as a watch reports it.
  object! RawExtension | The object after the change.
  type! string | ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
""",
)
"""The structures."""

VALUES: dict[str, Schema] = {
    f"{META}.Time": {"description": "A time in RFC 3339.", "type": "string", "format": "date-time"},
    f"{META}.MicroTime": {
        "description": "A time in RFC 3339 with microseconds.",
        "type": "string",
        "format": "date-time",
    },
    f"{META}.FieldsV1": {"description": "A set of fields, as a tree.", "type": "object"},
    f"{META}.Patch": {"description": "A change, in the format its Content-Type names.", "type": "object"},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"description": "Any object.", "type": "object"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "description": "An amount with an optional unit, such as 100m, 1.5 or 64Mi.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "description": "A number, or text such as a percentage or the name of a port.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}
"""Single values that are definitions of their own."""
