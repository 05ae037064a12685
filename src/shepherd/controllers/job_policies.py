"""What a Job makes of its pods' failures and successes: the rules that its author gave.

Source: kubernetes pkg/controller/job (pod_failure_policy.go, success_policy.go, backoff_utils.go).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from shepherd.api.indexes import Indexes
from shepherd.api.objects import Pod
from shepherd.api.objects.batch import ExitCodes, PodFailurePolicy, PodFailureRule, SuccessPolicy
from shepherd.api.objects.pod import ContainerStatus
from shepherd.lib.backoff import Backoff

BACKOFF = Backoff(initial=10.0, cap=360.0)
"""Before pods are made again. The cap is the documented one (concepts/workloads/controllers/job,
"Pod backoff failure policy")."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """What follows from the failure of a pod."""

    action: str = "Count"
    """Count, Ignore, FailIndex or FailJob."""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Towards the back-off limits."""
        return self.action != "Ignore"


def reaction(policy: PodFailurePolicy | None, pod: Pod) -> Reaction:
    """By the first rule that matches."""
    for number, rule in enumerate(policy.rules if policy else ()):
        if cause := _cause(rule, pod):
            return Reaction(
                rule.action, f"{cause} matching {rule.action} rule at index {number}"
            )  # fmt: skip
    return Reaction()


def _cause(rule: PodFailureRule, pod: Pod) -> str:
    """What of the pod makes the rule match; empty if nothing does."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes:
        statuses = pod.status.container_statuses + pod.status.init_container_statuses
        for status in statuses:
            if _code_matches(rule.on_exit_codes, status):
                code = status.state["terminated"]["exitCode"]
                return f"Container {status.name} for pod {name} failed with exit code {code}"
        return ""
    for condition in pod.status.conditions:
        for pattern in rule.on_pod_conditions:
            if (condition.type, condition.status) == (pattern.type, pattern.status):
                return f"Pod {name} has condition {condition.type}"
    return ""


def _code_matches(wanted: ExitCodes, status: ContainerStatus) -> bool:
    code = (status.state.get("terminated") or {}).get("exitCode", 0)
    if not code or wanted.container_name not in ("", status.name):
        return False
    return (code in wanted.values) == (wanted.operator == "In")


def success(policy: SuccessPolicy | None, done: Indexes) -> str:
    """Which rule declares the job a success with these indexes done; empty if none does."""
    for number, rule in enumerate(policy.rules if policy else ()):
        if rule.succeeded_indexes is None:
            wanted, count = done.total, rule.succeeded_count
            met = count is not None and wanted >= count
        else:
            named = Indexes.parse(rule.succeeded_indexes)
            needed = named.total if rule.succeeded_count is None else rule.succeeded_count
            met = done.common(named) >= needed
        if met and done.total:
            return f"Matched rules at index {number}"
    return ""


def pause(succeeded: Iterable[float], failed: Iterable[float], now: float) -> float:
    """The seconds until pods may be made again: longer for each failure since the last success.
    Given are the times at which pods ended."""
    last_success = max(succeeded, default=0.0)
    ends = [end for end in failed if end > last_success]
    return max(0.0, max(ends) + BACKOFF.delay(len(ends)) - now) if ends else 0.0
