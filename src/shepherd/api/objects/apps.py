"""Deployment, ReplicaSet. Source: kubernetes/api apps/v1 types.go."""

from typing import Any

from msgspec import field

from shepherd.api.objects.meta import Condition, LabelSelector, ObjectMeta, View


class RollingUpdate(View):
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"


class DeploymentStrategy(View):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(View):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}
    """The pod template as JSON: it is compared, hashed and copied whole."""
    strategy: DeploymentStrategy = field(default_factory=DeploymentStrategy)
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    paused: bool = False
    progress_deadline_seconds: int = 600


class DeploymentStatus(View):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    collision_count: int | None = None
    conditions: list[Condition] = []


class Deployment(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


class ReplicaSetSpec(View):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}


class ReplicaSetStatus(View):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: list[Condition] = []


class ReplicaSet(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ReplicaSetSpec = field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = field(default_factory=ReplicaSetStatus)
