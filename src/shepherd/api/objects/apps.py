"""The workloads of apps/v1, ReplicationController and ControllerRevision.

Source: kubernetes/api apps/v1 and core/v1 types.go.
"""

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


class ReplicationControllerSpec(View):
    replicas: int = 1
    min_ready_seconds: int = 0
    labels: dict[str, str] = field(default_factory=dict, name="selector")
    template: dict[str, Any] = {}

    @property
    def selector(self) -> LabelSelector | None:
        """Its selector in the form of all later workloads."""
        return LabelSelector(match_labels=self.labels) if self.labels else None


class ReplicationController(View):
    """What became the ReplicaSet: nothing but the form of the selector differs."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)
    status: ReplicaSetStatus = field(default_factory=ReplicaSetStatus)


class ClaimRetention(View):
    """What becomes of the claims: `Retain` or `Delete`."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(View):
    start: int = 0


class StatefulSetRollingUpdate(View):
    partition: int = 0
    """Pods below this place keep the current revision."""
    max_unavailable: int | str = 1


class StatefulSetStrategy(View):
    type: str = "RollingUpdate"
    rolling_update: StatefulSetRollingUpdate = field(default_factory=StatefulSetRollingUpdate)


class StatefulSetSpec(View):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}
    volume_claim_templates: list[dict[str, Any]] = []
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: StatefulSetStrategy = field(default_factory=StatefulSetStrategy)
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: ClaimRetention = field(default_factory=ClaimRetention)
    ordinals: Ordinals = field(default_factory=Ordinals)


class StatefulSetStatus(View):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None


class StatefulSet(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = field(default_factory=StatefulSetStatus)


class DaemonSetRollingUpdate(View):
    max_unavailable: int | str = 1
    max_surge: int | str = 0


class DaemonSetStrategy(View):
    type: str = "RollingUpdate"
    rolling_update: DaemonSetRollingUpdate = field(default_factory=DaemonSetRollingUpdate)


class DaemonSetSpec(View):
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}
    update_strategy: DaemonSetStrategy = field(default_factory=DaemonSetStrategy)
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(View):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None


class DaemonSet(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = field(default_factory=DaemonSetStatus)


class ControllerRevision(View):
    """One state of a workload, kept so that it can be returned to."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, Any] = {}
    revision: int = 0
