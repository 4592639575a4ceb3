"""The kinds that extend the API: admission policies and CustomResourceDefinitions."""

from __future__ import annotations

from nodemanager.server.kinds.schemas.notation import Schema, SchemaPackage

ADMISSION = SchemaPackage(
    "io.k8s.api.admissionregistration.v1",
    "admissionregistration.k8s.io",
    """
ValidatingAdmissionPolicy kind list | Rules that writes must follow.
  spec ValidatingAdmissionPolicySpec | Desired state.
  status ValidatingAdmissionPolicyStatus | Present state, as last observed.
ValidatingAdmissionPolicySpec | What is checked, and when.
  auditAnnotations [AuditAnnotation] atomic | Notes for the audit log.
  failurePolicy string enum=Fail,Ignore | What happens when the rules themselves fail.
  matchConditions [MatchCondition] map=name patch=merge:name | When the rules apply.
  matchConstraints MatchResources | Which requests are checked.
  paramKind ParamKind | Kind of the parameters.
  validations [Validation] atomic | Expressions that must hold.
  variables [Variable] map=name patch=merge:name | Expressions to use by name.
ValidatingAdmissionPolicyStatus | What the server thinks of a policy.
  conditions [Condition] map=type | Aspects of the present state, one per type.
  observedGeneration int64 | Generation of the object that this was made from.
  typeChecking TypeChecking | Doubts about the expressions.
AuditAnnotation | A note for the audit log.
  key! string | Key.
  valueExpression! string | Expression that gives the note.
MatchCondition | An expression that must hold.
  expression! string | Expression in CEL.
  name! string | Name.
MatchResources atomic | Which requests are meant.
  excludeResourceRules [NamedRuleWithOperations] atomic | Requests that are not meant.
  matchPolicy string enum=Equivalent,Exact | Whether other versions of the same resource count.
  namespaceSelector LabelSelector | Labels of the namespace.
  objectSelector LabelSelector | Labels of the object.
  resourceRules [NamedRuleWithOperations] atomic | Requests that are meant.
ParamKind atomic | Kind of the parameters of a policy.
  apiVersion string | Group and version.
  kind string | Kind of the object.
Validation | An expression that must hold.
  expression! string | Expression in CEL.
  message string | Explanation for people.
  messageExpression string | Expression that gives the message.
  reason string | Reason of the refusal.
Variable atomic | An expression with a name.
  expression! string | Expression in CEL.
  name! string | Name.
TypeChecking | Doubts about expressions.
  expressionWarnings [ExpressionWarning] atomic | One entry per doubt.
NamedRuleWithOperations atomic | Resources and operations.
  apiGroups [string] atomic | API groups; * is all.
  apiVersions [string] atomic | API versions; * is all.
  operations [string] atomic enum=*,CONNECT,CREATE,DELETE,UPDATE | CREATE, UPDATE, DELETE, CONNECT or *.
  resourceNames [string] atomic | Names the rule is limited to.
  resources [string] atomic | Resources, with a subresource after a slash; * is all.
  scope string enum=*,Cluster,Namespaced | Cluster, Namespaced or *.
ExpressionWarning | A doubt about an expression.
  fieldRef! string | Where the expression is.
  warning! string | What is doubtful.
ValidatingAdmissionPolicyBinding kind list | Puts a policy to work.
  spec! ValidatingAdmissionPolicyBindingSpec | Desired state.
ValidatingAdmissionPolicyBindingSpec | Where a policy applies, and how.
  matchResources MatchResources | Narrows the requests that are checked.
  paramRef ParamRef | Parameters to use.
  policyName! string | The policy.
  validationActions! [string] set enum=Audit,Deny,Warn | Deny, Warn or Audit.
ParamRef atomic | Which objects are parameters.
  name string | Name.
  namespace string | Namespace.
  parameterNotFoundAction string | Allow or Deny when there is none.
  selector LabelSelector | Labels of the parameters.
""",
)
"""Admission policies and their bindings."""

APIEXTENSIONS = SchemaPackage(
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "apiextensions.k8s.io",
    """
CustomResourceDefinition kind list | A kind that users add to the API.
  spec! CustomResourceDefinitionSpec | Desired state.
  status CustomResourceDefinitionStatus | Present state, as last observed.
CustomResourceDefinitionSpec | How the kind is called, stored and checked.
  conversion CustomResourceConversion | How objects pass between versions.
  group! string | API group.
  names! CustomResourceDefinitionNames | Names of the resource.
  preserveUnknownFields boolean | No longer used; must be false.
  scope! string | Cluster or Namespaced.
  versions! [CustomResourceDefinitionVersion] atomic | Versions of the kind.
CustomResourceDefinitionStatus | What the server made of it.
  acceptedNames CustomResourceDefinitionNames | Names in use.
  conditions [CustomResourceDefinitionCondition] map=type | Aspects of the present state, one per type.
  observedGeneration int64 | Generation of the object that this was made from.
  storedVersions [string] atomic | Versions that objects were ever stored in.
CustomResourceConversion | How objects pass between versions.
  strategy! string | None or Webhook.
  webhook WebhookConversion | Service that converts.
CustomResourceDefinitionNames | Names of a resource.
  categories [string] atomic | Groups of resources it belongs to, such as all.
  kind! string | Name of the kind, in CamelCase.
  listKind string | Name of its list.
  plural! string | Name in URLs.
  shortNames [string] atomic | Short names for people.
  singular string | Name of one object, in lower case.
CustomResourceDefinitionVersion | One version of a kind.
  additionalPrinterColumns [CustomResourceColumnDefinition] atomic | Columns of kubectl get.
  deprecated boolean | Whether its use is warned of.
  deprecationWarning string | Text of that warning.
  name! string | Name of the version, such as v1.
  schema CustomResourceValidation | How objects are checked, defaulted and pruned.
  selectableFields [SelectableField] atomic | Fields that field selectors can use.
  served! boolean | Whether the version can be used.
  storage! boolean | Whether objects are stored in it; true for one version.
  subresources CustomResourceSubresources | Subresources of the kind.
CustomResourceDefinitionCondition | One aspect of the state of a definition.
  lastTransitionTime Time | When the status last changed.
  message string | Explanation for people.
  observedGeneration int64 | Generation of the object that this was made from.
  reason string | One word for programs that says why.
  status! string | True, False or Unknown.
  type! string | Name of the aspect, for example Established.
WebhookConversion | A service that converts objects.
  clientConfig WebhookClientConfig | How to reach it.
  conversionReviewVersions! [string] atomic | Versions of the protocol it speaks.
CustomResourceColumnDefinition | A column of kubectl get.
  description string | Explanation.
  format string | Format of the type.
  jsonPath! string | Path of the field.
  name! string | Name.
  priority int32 | 0 is always shown, more only with -o wide.
  type! string | Type of the values.
CustomResourceValidation | How objects are checked.
  openAPIV3Schema JSONSchemaProps | The schema.
SelectableField | A field that field selectors can use.
  jsonPath! string | Path of the field.
CustomResourceSubresources | Subresources of a kind.
  scale CustomResourceSubresourceScale | Number of replicas, as a resource.
  status CustomResourceSubresourceStatus | Status, written apart from the rest.
WebhookClientConfig | How to reach a webhook.
  caBundle bytes | Certificates to trust, in PEM.
  service ServiceReference | Service in the cluster.
  url string | Address outside of it.
JSONSchemaProps | A schema, as JSON Schema with Kubernetes' own additions.
  $ref string | Not supported.
  $schema string | Not supported.
  additionalItems JSONSchemaPropsOrBool | Not supported.
  additionalProperties JSONSchemaPropsOrBool | Schema of the values of a map.
  allOf [JSONSchemaProps] atomic | Schemas that must all hold.
  anyOf [JSONSchemaProps] atomic | Schemas of which one must hold.
  default JSON | Value of a field that is not given.
  definitions {JSONSchemaProps} | Not supported.
  dependencies {JSONSchemaPropsOrStringArray} | Not supported.
  description string | Explanation.
  enum [JSON] atomic | Values that are allowed.
  example JSON | An example.
  exclusiveMaximum boolean | Whether the maximum itself is excluded.
  exclusiveMinimum boolean | Whether the minimum itself is excluded.
  externalDocs ExternalDocumentation | Where to read more.
  format string | Format of a string or number.
  id string | Not supported.
  items JSONSchemaPropsOrArray | Schema of the items of a list.
  maxItems int64 | The most items.
  maxLength int64 | The most characters.
  maxProperties int64 | The most fields.
  maximum double | The largest number.
  minItems int64 | The fewest items.
  minLength int64 | The fewest characters.
  minProperties int64 | The fewest fields.
  minimum double | The smallest number.
  multipleOf double | Number that must divide it.
  not JSONSchemaProps | Schema that must not hold.
  nullable boolean | Whether null is allowed.
  oneOf [JSONSchemaProps] atomic | Schemas of which exactly one must hold.
  pattern string | Regular expression that must match.
  patternProperties {JSONSchemaProps} | Not supported.
  properties {JSONSchemaProps} | Schemas of the fields.
  required [string] atomic | Fields that must be given.
  title string | Heading.
  type string | Type of the value.
  uniqueItems boolean | Not supported.
  x-kubernetes-embedded-resource boolean | Whether it is a whole object.
  x-kubernetes-int-or-string boolean | Whether it is a number or text.
  x-kubernetes-list-map-keys [string] atomic | Fields that tell items apart.
  x-kubernetes-list-type string | atomic, set or map.
  x-kubernetes-map-type string | atomic or granular.
  x-kubernetes-preserve-unknown-fields boolean | Whether unknown fields are kept.
  x-kubernetes-validations [ValidationRule] map=rule patch=merge:rule | Expressions that must hold.
CustomResourceSubresourceScale | Where the number of replicas is.
  labelSelectorPath string | Path of the selector.
  specReplicasPath! string | Path of the wanted number.
  statusReplicasPath! string | Path of the present number.
CustomResourceSubresourceStatus | Whether status is a subresource; has no settings.
ServiceReference | A service in the cluster.
  name! string | Name.
  namespace! string | Namespace.
  path string | URL path.
  port int32 | Port.
ExternalDocumentation | Where to read more.
  description string | Explanation.
  url string | Address.
ValidationRule | An expression that must hold.
  fieldPath string | Field that a failure is reported for.
  message string | What a failure says.
  messageExpression string | Expression that gives the message.
  optionalOldSelf boolean | Whether it is checked without an old value, too.
  reason string enum=FieldValueDuplicate,FieldValueForbidden,FieldValueInvalid,FieldValueRequired \
| Reason of a failure.
  rule! string | Expression in CEL; self is the value.
""",
)
"""CustomResourceDefinitions."""

ANYTHING: dict[str, Schema] = {
    f"{APIEXTENSIONS.prefix}.{name}": {"description": description}
    for name, description in {
        "JSON": "Any value.",
        "JSONSchemaPropsOrArray": "A schema, or a list of them.",
        "JSONSchemaPropsOrBool": "A schema, or true or false.",
        "JSONSchemaPropsOrStringArray": "A schema, or a list of names.",
    }.items()
}
"""Parts of a schema that have no type."""
