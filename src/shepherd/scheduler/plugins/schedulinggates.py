"""SchedulingGates: a pod waits until whoever set its gates has removed them."""

from shepherd.scheduler.framework import Unfit
from shepherd.scheduler.objects import Pod


class SchedulingGates:
    name = "SchedulingGates"

    def gate(self, pod: Pod) -> Unfit | None:
        if not pod.spec.scheduling_gates:
            return None
        return Unfit(self.name, "Scheduling is blocked due to non-empty scheduling gates")
