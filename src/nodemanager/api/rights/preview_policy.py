"""The admission policy that lets only those propose ConfigSets who could also write them.

A host looks at its files as root to report what a proposal would do. An author of ConfigSets is root
there anyway; a right to ConfigSetPreviews from another role must not give such a look.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS
from nodemanager.api.rights import admission_policy
from nodemanager.api.rights.admission_policy import Object

POLICY: Final = "nodemanager-previews"
_MAY_WRITE: Final = (
    f"authorizer.group('{CONFIG_SETS.group}').resource('{CONFIG_SETS.plural}')"
    ".namespace(request.namespace).check('update').allowed()"
)
_REMEDY: Final = "hosts are asked by people who may update ConfigSets, such as with nodemanager-editor"


def policies() -> list[Object]:
    """Return the policy and its binding."""
    return admission_policy.policy(
        POLICY,
        [admission_policy.matched(CONFIG_SET_PREVIEWS.group, [CONFIG_SET_PREVIEWS.plural], ["CREATE"])],
        [
            admission_policy.validation(
                _MAY_WRITE,
                f"only who may update ConfigSets may propose some: {_REMEDY}",
                f"request.userInfo.username + ' may not propose ConfigSets: {_REMEDY}'",
            )
        ],
    )
