"""Kinds that are asked and never stored: a create answers with the object, its status filled in.

Source: kubernetes pkg/registry/authentication and pkg/registry/authorization.
"""

from collections.abc import Awaitable, Callable

import msgspec

from shepherd.api import errors
from shepherd.api.kinds import reviews as kinds
from shepherd.api.resource import Object
from shepherd.api.selectors import FieldSelector, FieldTerm
from shepherd.lib.http import Response, User
from shepherd.server.authorization.actions import Action
from shepherd.server.handlers import Call, Handlers, json_answer

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def _answer(call: Call, obj: Object, status: Object) -> Response:
    obj = {key: value for key, value in obj.items() if key != "status"}
    obj.setdefault("metadata", {})
    return json_answer(obj | {"status": status}, 201)


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


async def token_review(handlers: Handlers, call: Call) -> Response:
    """TokenReview: whose token is this?"""
    obj = call.body(*call.kind).object
    token = _spec(obj).get("token") or ""
    if not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    audiences = _spec(obj).get("audiences") or []
    try:
        user = await handlers.access.authenticator.identify(token, audiences)
    except errors.ApiError as error:
        return _answer(call, obj, {"user": {}, "error": f"[invalid bearer token, {error}]"})
    status = {"authenticated": True, "user": user_info(user)}
    return _answer(call, obj, status | ({"audiences": audiences} if audiences else {}))


async def self_subject_review(handlers: Handlers, call: Call) -> Response:
    """SelfSubjectReview: who am I?"""
    obj = call.body(*call.kind).object
    return _answer(call, obj, {"userInfo": user_info(call.user)})


def user_info(user: User) -> Object:
    """A user as authentication.k8s.io/v1 UserInfo."""
    info = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in info.items() if value}


async def self_subject_access_review(handlers: Handlers, call: Call) -> Response:
    """SelfSubjectAccessReview: may I?"""
    obj = call.body(*call.kind).object
    return await _access_review(handlers, call, obj, call.user)


async def subject_access_review(handlers: Handlers, call: Call) -> Response:
    """SubjectAccessReview and its namespaced twin: may they?"""
    obj = call.body(*call.kind).object
    spec = _spec(obj)
    name, groups = spec.get("user") or "", spec.get("groups") or []
    if not name and not groups:
        detail = "at least one of user or group must be specified"
        raise _invalid(call, errors.invalid_value("spec.user", name, detail))
    attributes = spec.get("resourceAttributes") or {}
    if call.route.namespace and attributes.get("namespace") != call.route.namespace:
        detail = "must match metadata.namespace"
        asked = attributes.get("namespace") or ""
        raise _invalid(
            call, errors.invalid_value("spec.resourceAttributes.namespace", asked, detail)
        )
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    user = User(name, tuple(groups), spec.get("uid") or "", extra)
    return await _access_review(handlers, call, obj, user)


async def _access_review(handlers: Handlers, call: Call, obj: Object, user: User) -> Response:
    spec = _spec(obj)
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        given = {"resourceAttributes": resource, "nonResourceAttributes": path}
        raise _invalid(call, errors.invalid_value("spec.nonResourceAttributes", given, _ONE_OF))
    verdict = await handlers.access.decide(_action(user, resource, path or {}))
    status: Object = {"allowed": verdict.allowed}
    return _answer(call, obj, status | ({"reason": verdict.reason} if verdict.reason else {}))


def _action(user: User, resource: Object | None, path: Object) -> Action:
    """What the attributes of a review ask about."""
    if resource is None:
        return Action(user, path.get("verb") or "", path=path.get("path") or "")
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    required = (resource.get("fieldSelector") or {}).get("requirements") or ()
    equal = [
        FieldTerm(one.get("key") or "", one["values"][0])
        for one in required
        if one.get("operator") == "In" and len(one.get("values") or ()) == 1
    ]
    asked = {name: resource.get(name) or "" for name in names}
    return Action(user, fields=FieldSelector(tuple(equal)), **asked)


async def self_subject_rules_review(handlers: Handlers, call: Call) -> Response:
    """SelfSubjectRulesReview: what may I, all in all?"""
    obj = call.body(*call.kind).object
    namespace = _spec(obj).get("namespace")
    if not namespace:
        raise errors.bad_request("no namespace on request")
    known = await handlers.access.rules(call.user, namespace)
    rules: list[Object] = msgspec.to_builtins(known.rules)
    status: Object = {
        "resourceRules": [rule for rule in rules if "resources" in rule],
        "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
        "incomplete": bool(known.problem),
    }
    problem = {"evaluationError": known.problem} if known.problem else {}
    return _answer(call, obj, status | problem)


def _invalid(call: Call, error: errors.FieldError) -> errors.ApiError:
    return errors.invalid(call.route.group, call.route.resource.kind, "", [error])


REVIEWS: dict[str, Callable[[Handlers, Call], Awaitable[Response]]] = {
    kinds.TOKEN_REVIEW.storage: token_review,
    kinds.SELF_SUBJECT_REVIEW.storage: self_subject_review,
    kinds.SUBJECT_ACCESS_REVIEW.storage: subject_access_review,
    kinds.LOCAL_SUBJECT_ACCESS_REVIEW.storage: subject_access_review,
    kinds.SELF_SUBJECT_ACCESS_REVIEW.storage: self_subject_access_review,
    kinds.SELF_SUBJECT_RULES_REVIEW.storage: self_subject_rules_review,
}
