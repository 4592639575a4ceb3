"""Questions that are answered and not stored: tokens and permissions."""

from __future__ import annotations

from nodemanager.server.kinds.schemas.notation import SchemaPackage

AUTHENTICATION = SchemaPackage(
    "io.k8s.api.authentication.v1",
    "authentication.k8s.io",
    """
TokenRequest kind | Asks for a token of a service account.
  spec TokenRequestSpec | Desired state.
  status TokenRequestStatus | Present state, as last observed.
TokenRequestSpec | What token is wanted.
  audiences [string] atomic | Who may accept it.
  boundObjectRef BoundObjectReference | Object that the token dies with.
  expirationSeconds int64 | How long it shall be valid.
TokenRequestStatus | The token.
  expirationTimestamp Time | Until when it is valid.
  token string | The token itself.
BoundObjectReference | An object that a token is bound to.
  apiVersion string | Group and version.
  kind string | Kind of the object.
  name string | Name.
  uid string | Unique id.
TokenReview kind | Asks whose token it is.
  spec! TokenReviewSpec | Desired state.
  status TokenReviewStatus | Present state, as last observed.
TokenReviewSpec | The token to check.
  audiences [string] atomic | Audiences of the asker.
  token! string | The token.
TokenReviewStatus | Whose token it is.
  audiences [string] atomic | Audiences that fit.
  authenticated boolean | Whether it is valid.
  error string | Why it could not be checked.
  user UserInfo | Whose it is.
UserInfo | A user, as the server knows it.
  extra {[string]} | More about the user.
  groups [string] atomic | Groups of the user.
  uid string | Unique id.
  username string | Name of the user.
SelfSubjectReview kind | Asks who the asker is.
  status SelfSubjectReviewStatus | Present state, as last observed.
SelfSubjectReviewStatus | Who the asker is.
  userInfo UserInfo | The asker.
""",
)
"""Who somebody is."""

AUTHORIZATION = SchemaPackage(
    "io.k8s.api.authorization.v1",
    "authorization.k8s.io",
    """
SubjectAccessReview kind | Asks what somebody may do.
  spec! SubjectAccessReviewSpec | Desired state.
  status SubjectAccessReviewStatus | Present state, as last observed.
SubjectAccessReviewSpec | Who wants to do what.
  extra {[string]} | More about the user.
  groups [string] atomic | Groups of the user.
  nonResourceAttributes NonResourceAttributes | A request for a URL path.
  resourceAttributes ResourceAttributes | A request for a resource.
  uid string | Unique id.
  user string | Name of the user.
SubjectAccessReviewStatus | The answer.
  allowed! boolean | Whether it is permitted.
  denied boolean | Whether it is forbidden for good.
  evaluationError string | What went wrong while deciding.
  reason string | One word for programs that says why.
NonResourceAttributes | A request for a URL path.
  path string | The path.
  verb string | The verb.
ResourceAttributes | A request for a resource.
  fieldSelector FieldSelectorAttributes | Limits it by fields.
  group string | API group.
  labelSelector LabelSelectorAttributes | Limits it by labels.
  name string | Name.
  namespace string | Namespace.
  resource string | The resource; * is all.
  subresource string | The subresource.
  verb string | The verb.
  version string | The version; * is all.
FieldSelectorAttributes | A limit by fields.
  rawSelector string | The selector as text.
  requirements [FieldSelectorRequirement] atomic | The selector as requirements.
LabelSelectorAttributes | A limit by labels.
  rawSelector string | The selector as text.
  requirements [LabelSelectorRequirement] atomic | The selector as requirements.
SelfSubjectAccessReview kind | Asks what the asker may do.
  spec! SelfSubjectAccessReviewSpec | Desired state.
  status SubjectAccessReviewStatus | Present state, as last observed.
SelfSubjectAccessReviewSpec | What the asker wants to do.
  nonResourceAttributes NonResourceAttributes | A request for a URL path.
  resourceAttributes ResourceAttributes | A request for a resource.
LocalSubjectAccessReview kind | Asks what somebody may do in one namespace.
  spec! SubjectAccessReviewSpec | Desired state.
  status SubjectAccessReviewStatus | Present state, as last observed.
SelfSubjectRulesReview kind | Asks for all that the asker may do in a namespace.
  spec! SelfSubjectRulesReviewSpec | Desired state.
  status SubjectRulesReviewStatus | Present state, as last observed.
SelfSubjectRulesReviewSpec | Where.
  namespace string | Namespace.
SubjectRulesReviewStatus | What is permitted.
  evaluationError string | What went wrong while deciding.
  incomplete! boolean | Whether there may be more.
  nonResourceRules! [NonResourceRule] atomic | Permissions on URL paths.
  resourceRules! [ResourceRule] atomic | Permissions on resources.
NonResourceRule | Verbs on URL paths.
  nonResourceURLs [string] atomic | URL paths that are no resources; * at the end is any rest.
  verbs! [string] atomic | Verbs; * is all.
ResourceRule | Verbs on resources.
  apiGroups [string] atomic | API groups; * is all.
  resourceNames [string] atomic | Names the rule is limited to.
  resources [string] atomic | Resources, with a subresource after a slash; * is all.
  verbs! [string] atomic | Verbs; * is all.
""",
)
"""What somebody may do."""
