"""Namespace, Lease. Source: kubernetes/api core/v1 and coordination/v1 types.go."""

from msgspec import field

from shepherd.api.objects.meta import Condition, ObjectMeta, View


class NamespaceSpec(View):
    finalizers: list[str] = []


class NamespaceStatus(View):
    phase: str = "Active"
    conditions: list[Condition] = []


class Namespace(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NamespaceSpec = field(default_factory=NamespaceSpec)
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class LeaseSpec(View):
    renew_time: str | None = None


class Lease(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)
