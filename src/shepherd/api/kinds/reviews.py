"""Kinds that are only asked, never stored: a create answers with the object's status filled in.

The server's `reviews` answers them. Binding is the old address of `pods/{name}/binding`.
"""

from shepherd.api.resource import Resource

_CREATE = ("create",)


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    plural = f"{kind.lower()}s"
    return Resource(group, "v1", kind=kind, plural=plural, namespaced=namespaced, verbs=_CREATE)


TOKEN_REVIEW = _review("authentication.k8s.io", "TokenReview")
SELF_SUBJECT_REVIEW = _review("authentication.k8s.io", "SelfSubjectReview")
SUBJECT_ACCESS_REVIEW = _review("authorization.k8s.io", "SubjectAccessReview")
SELF_SUBJECT_ACCESS_REVIEW = _review("authorization.k8s.io", "SelfSubjectAccessReview")
SELF_SUBJECT_RULES_REVIEW = _review("authorization.k8s.io", "SelfSubjectRulesReview")
LOCAL_SUBJECT_ACCESS_REVIEW = _review(
    "authorization.k8s.io", "LocalSubjectAccessReview", namespaced=True
)
BINDING = _review("", "Binding", namespaced=True)
