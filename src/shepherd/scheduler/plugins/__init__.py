"""The plugins in force: the explicit table. How to add one: docs/contributing/add-a-plugin.md."""

from shepherd.scheduler.framework import Profile
from shepherd.scheduler.plugins.interpodaffinity import InterPodAffinity
from shepherd.scheduler.plugins.nodeaffinity import NodeAffinity
from shepherd.scheduler.plugins.nodename import NodeName
from shepherd.scheduler.plugins.nodeports import NodePorts
from shepherd.scheduler.plugins.noderesourcesbalancedallocation import (
    NodeResourcesBalancedAllocation,
)
from shepherd.scheduler.plugins.noderesourcesfit import NodeResourcesFit
from shepherd.scheduler.plugins.nodeunschedulable import NodeUnschedulable
from shepherd.scheduler.plugins.podtopologyspread import PodTopologySpread
from shepherd.scheduler.plugins.schedulinggates import SchedulingGates
from shepherd.scheduler.plugins.tainttoleration import TaintToleration

DEFAULT_PROFILE = Profile(
    gates=(SchedulingGates(),),
    filters=(
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(),
        PodTopologySpread(),
        InterPodAffinity(),
    ),
    scores=(
        TaintToleration(),
        NodeAffinity(),
        NodeResourcesFit(),
        NodeResourcesBalancedAllocation(),
        PodTopologySpread(),
        InterPodAffinity(),
    ),
)
