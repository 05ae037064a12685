"""The kinds of admissionregistration.k8s.io: webhooks and policies that judge writes.

Source: kubernetes pkg/apis/admissionregistration/v1/defaults.go and validation.
"""

from shepherd.api.errors import forbidden_field, invalid_value, required
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, column, count, value_at
from shepherd.api.kinds.checks import Errors, label_selector, one_of, unique
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import Column, Object, Resource

_GROUP = "admissionregistration.k8s.io"
_FAILURE_POLICIES = ("Fail", "Ignore")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")

WEBHOOK_VARIABLES = ("object", "oldObject", "request", "authorizer")
"""What conditions of webhooks may speak of."""
CONDITION_VARIABLES = (*WEBHOOK_VARIABLES, "namespaceObject", "params")
"""What conditions of policies may."""
VARIABLES = (*CONDITION_VARIABLES, "variables")
"""What all other expressions of policies may."""


def _default_matching(rules: Object) -> None:
    fill(rules, {"matchPolicy": "Equivalent"})
    child(rules, "namespaceSelector")
    child(rules, "objectSelector")
    for rule in (*(rules.get("rules") or ()), *(rules.get("resourceRules") or ())):
        fill(rule, {"scope": "*"})


def _default_webhooks(configuration: Object) -> None:
    for webhook in configuration.get("webhooks") or ():
        fill(webhook, {"failurePolicy": "Fail", "timeoutSeconds": 10})
        if configuration.get("kind") == "MutatingWebhookConfiguration":
            fill(webhook, {"reinvocationPolicy": "Never"})
        _default_matching(webhook)
        if service := (webhook.get("clientConfig") or {}).get("service"):
            service.setdefault("port", 443)


def _validate_webhooks(configuration: Object) -> Errors:
    names: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        at = f"webhooks[{index}]"
        yield from unique(f"{at}.name", webhook.get("name") or "", names)
        effects = webhook.get("sideEffects")
        yield from one_of(f"{at}.sideEffects", effects, ("None", "NoneOnDryRun"))
        yield from one_of(f"{at}.failurePolicy", webhook.get("failurePolicy"), _FAILURE_POLICIES)
        seconds = webhook.get("timeoutSeconds")
        if isinstance(seconds, int) and not 1 <= seconds <= 30:
            detail = "the timeout value must be between 1 and 30 seconds"
            yield invalid_value(f"{at}.timeoutSeconds", seconds, detail)
        config = webhook.get("clientConfig") or {}
        if bool(config.get("url")) == bool(config.get("service")):
            yield required(f"{at}.clientConfig", "exactly one of url or service is required")
        if not set(webhook.get("admissionReviewVersions") or ("v1",)) & {"v1", "v1beta1"}:
            detail = "must include at least one of v1, v1beta1"
            yield invalid_value(
                f"{at}.admissionReviewVersions", webhook["admissionReviewVersions"], detail
            )
        yield from label_selector(f"{at}.namespaceSelector", webhook.get("namespaceSelector"))
        yield from label_selector(f"{at}.objectSelector", webhook.get("objectSelector"))
        yield from _conditions(webhook, at, WEBHOOK_VARIABLES)


def _conditions(content: Object, path: str, variables: tuple[str, ...]) -> Errors:
    names: set[str] = set()
    for index, condition in enumerate(content.get("matchConditions") or ()):
        at = f"{path}.matchConditions[{index}]"
        yield from unique(f"{at}.name", condition.get("name") or "", names)
        yield from _expression(condition, f"{at}.expression", variables, "BOOL")


def _webhooks(kind: str, plural: str) -> Resource:
    return Resource(
        group=_GROUP,
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=False,
        categories=("api-extensions",),
        generation=True,
        columns=(count("Webhooks", "webhooks", "How many it has."), AGE),
        default=_default_webhooks,
        validate=validates(f"admissionregistration.v1.{kind}", _validate_webhooks),
    )


MUTATING_WEBHOOK_CONFIGURATION = _webhooks(
    "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"
)
VALIDATING_WEBHOOK_CONFIGURATION = _webhooks(
    "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
)


def _default_policy(policy: Object) -> None:
    spec = child(policy, "spec")
    fill(spec, {"failurePolicy": "Fail"})
    if policy.get("kind") == "MutatingAdmissionPolicy":
        fill(spec, {"reinvocationPolicy": "Never"})
    else:
        child(policy, "status")
    if matching := spec.get("matchConstraints"):
        _default_matching(matching)


def _expression(content: Object, path: str, variables: tuple[str, ...], *types: str) -> Errors:
    """The expression in the field of `content` that `path` ends with."""
    from shepherd.api.cel.checks import check_expression

    yield from check_expression(content.get(path.rpartition(".")[2]), path, variables, *types)


def _expressions(spec: Object) -> Errors:
    """What is wrong with the expressions of a policy."""
    yield from _conditions(spec, "spec", CONDITION_VARIABLES)
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from _expression(variable, f"spec.variables[{index}].expression", VARIABLES)
    for index, validation in enumerate(spec.get("validations") or ()):
        at = f"spec.validations[{index}]"
        yield from _expression(validation, f"{at}.expression", VARIABLES, "BOOL")
        if validation.get("messageExpression"):
            yield from _expression(validation, f"{at}.messageExpression", VARIABLES, "STRING")
        if validation.get("reason"):
            yield from one_of(f"{at}.reason", validation["reason"], _REASONS)
    for index, annotation in enumerate(spec.get("auditAnnotations") or ()):
        at = f"spec.auditAnnotations[{index}].valueExpression"
        yield from _expression(annotation, at, VARIABLES, "STRING", "NULL")
    for index, mutation in enumerate(spec.get("mutations") or ()):
        yield from _mutation(mutation, f"spec.mutations[{index}]")


def _mutation(mutation: Object, path: str) -> Errors:
    forms = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
    kind = mutation.get("patchType") or ""
    yield from one_of(f"{path}.patchType", kind, tuple(forms))
    if kind not in forms:
        return
    if not (patch := mutation.get(forms[kind])):
        yield required(f"{path}.{forms[kind]}", f"must be specified when patchType is {kind}")
        return
    wanted = ("LIST",) if kind == "JSONPatch" else ("MAP",)
    yield from _expression(patch, f"{path}.{forms[kind]}.expression", VARIABLES, *wanted)


def _validate_policy(policy: Object) -> Errors:
    spec = policy.get("spec") or {}
    yield from one_of("spec.failurePolicy", spec.get("failurePolicy"), _FAILURE_POLICIES)
    if not spec.get("matchConstraints"):
        yield required("spec.matchConstraints")
    elif not value_at(spec, "matchConstraints.resourceRules"):
        yield required("spec.matchConstraints.resourceRules")
    if policy.get("kind") == "MutatingAdmissionPolicy":
        if not spec.get("mutations"):
            yield required("spec.mutations")
    elif not spec.get("validations") and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", detail)
    yield from _expressions(spec)


def _param_kind(policy: Object, now: float) -> str:
    found = value_at(policy, "spec.paramKind")
    return f"{found.get('apiVersion')}/{found.get('kind')}" if found else "<unset>"


def _param(binding: Object, now: float) -> str:
    found = value_at(binding, "spec.paramRef")
    if not found:
        return "<unset>"
    namespace = found.get("namespace") or "*"
    return f"{namespace}/{found.get('name') or '*'}"


def _policy(kind: str, plural: str, rules: str) -> Resource:
    return Resource(
        group=_GROUP,
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=False,
        categories=("api-extensions",),
        status=kind.startswith("Validating"),
        generation=True,
        columns=(
            count(rules.capitalize(), f"spec.{rules}", "How many it has."),
            Column("ParamKind", _param_kind, description="Of what its parameters are."),
            AGE,
        ),
        default=_default_policy,
        validate=validates(f"admissionregistration.v1.{kind}", _validate_policy),
    )


VALIDATING_ADMISSION_POLICY = _policy(
    "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "validations"
)
MUTATING_ADMISSION_POLICY = _policy(
    "MutatingAdmissionPolicy", "mutatingadmissionpolicies", "mutations"
)


def _default_binding(binding: Object) -> None:
    if matching := value_at(binding, "spec.matchResources"):
        _default_matching(matching)


def _validate_binding(binding: Object) -> Errors:
    actions = value_at(binding, "spec.validationActions") or ()
    for index, action in enumerate(actions):
        at = f"spec.validationActions[{index}]"
        yield from one_of(at, action, ("Audit", "Deny", "Warn"))
    if "Deny" in actions and "Warn" in actions:
        detail = "must not contain both Deny and Warn (repeating the same validation failure)"
        yield forbidden_field("spec.validationActions", detail)
    if not value_at(binding, "spec.policyName"):
        yield required("spec.policyName")


def _binding(kind: str, plural: str) -> Resource:
    return Resource(
        group=_GROUP,
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=False,
        categories=("api-extensions",),
        generation=True,
        columns=(
            column("PolicyName", "spec.policyName", "Which policy it puts to use."),
            Column("ParamRef", _param, description="With which parameters."),
            AGE,
        ),
        default=_default_binding,
        validate=lambda binding: list(_validate_binding(binding)),
    )


VALIDATING_ADMISSION_POLICY_BINDING = _binding(
    "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
)
MUTATING_ADMISSION_POLICY_BINDING = _binding(
    "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"
)
