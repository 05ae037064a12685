"""PodDisruptionBudget. Source: kubernetes/api policy/v1 types.go."""

from msgspec import field

from shepherd.api.objects.meta import Condition, LabelSelector, ObjectMeta, View


class PodDisruptionBudgetSpec(View):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(View):
    observed_generation: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}
    """When each pod was evicted whose end the controller has yet to see."""
    conditions: list[Condition] = []


class PodDisruptionBudget(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
