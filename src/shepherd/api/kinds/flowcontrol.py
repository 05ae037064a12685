"""FlowSchema, PriorityLevelConfiguration.

Source: kubernetes pkg/apis/flowcontrol/v1/defaults.go and validation.
"""

from shepherd.api.errors import required
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, NONE, column, number, value_at
from shepherd.api.kinds.checks import Errors, between, one_of
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import Column, Object, Resource

_GROUP = "flowcontrol.apiserver.k8s.io"


def _default_schema(schema: Object) -> None:
    fill(child(schema, "spec"), {"matchingPrecedence": 1000})
    child(schema, "status")


def _validate_schema(schema: Object) -> Errors:
    yield from between(
        "spec.matchingPrecedence", value_at(schema, "spec.matchingPrecedence"), 1, 10000
    )
    kind = value_at(schema, "spec.distinguisherMethod.type")
    yield from one_of("spec.distinguisherMethod.type", kind, ("ByNamespace", "ByUser"))


FLOW_SCHEMA = Resource(
    group=_GROUP,
    version="v1",
    kind="FlowSchema",
    plural="flowschemas",
    namespaced=False,
    status=True,
    generation=True,
    idle=True,
    columns=(
        column("PriorityLevel", "spec.priorityLevelConfiguration.name", "Its priority level."),
        number("MatchingPrecedence", "spec.matchingPrecedence", "Lower ones come first."),
        column("DistinguisherMethod", "spec.distinguisherMethod.type", "What tells flows apart."),
        AGE,
    ),
    default=_default_schema,
    validate=validates("flowcontrol.v1.FlowSchema", _validate_schema),
)


def _default_level(level: Object) -> None:
    spec = child(level, "spec")
    if limited := spec.get("limited"):
        fill(limited, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
        response = child(limited, "limitResponse")
        if response.get("type") == "Queue":
            defaults = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
            fill(child(response, "queuing"), defaults)
    child(level, "status")


def _validate_level(level: Object) -> Errors:
    kind = value_at(level, "spec.type")
    yield from one_of("spec.type", kind, ("Exempt", "Limited"))
    if kind == "Limited" and not value_at(level, "spec.limited"):
        yield required("spec.limited")


def _queuing(name: str, field: str, description: str) -> Column:
    return column(name, f"spec.limited.limitResponse.queuing.{field}", description, missing=NONE)


PRIORITY_LEVEL_CONFIGURATION = Resource(
    group=_GROUP,
    version="v1",
    kind="PriorityLevelConfiguration",
    plural="prioritylevelconfigurations",
    namespaced=False,
    status=True,
    generation=True,
    idle=True,
    columns=(
        column("Type", "spec.type", "Limited or Exempt."),
        column("NominalConcurrencyShares", "spec.limited.nominalConcurrencyShares", "Its share."),
        _queuing("Queues", "queues", "How many queues it has."),
        _queuing("HandSize", "handSize", "From how many a flow chooses."),
        _queuing("QueueLengthLimit", "queueLengthLimit", "How long each may get."),
        AGE,
    ),
    default=_default_level,
    validate=validates("flowcontrol.v1.PriorityLevelConfiguration", _validate_level),
)
