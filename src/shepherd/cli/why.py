"""`sheepctl why`: why an object is pending, not ready, or still there.

It reads what anybody may read and puts it together. What the nodes have against a pod is worked
out by the scheduler's own plugins over the lists of nodes and pods.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from shepherd.api.conditions import condition_is_true
from shepherd.api.errors import ApiError
from shepherd.api.kinds import (
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    SERVICE,
)
from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.kinds.jobs import CRON_JOB, JOB
from shepherd.api.kinds.podsummary import summarize
from shepherd.api.objects import decode
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import selector_of
from shepherd.cli import reasons
from shepherd.cli.events import events_about
from shepherd.cli.kinds import Kinds
from shepherd.cli.output import echo
from shepherd.cli.reasons import Finding
from shepherd.cli.rollout import progress, trouble
from shepherd.cli.sections import why_pending
from shepherd.cli.session import Session, connection_options, pass_session
from shepherd.cli.targets import reference
from shepherd.client.base import Client
from shepherd.lib.tasks import all_of
from shepherd.scheduler.explain import Objection, explain
from shepherd.scheduler.objects import Node, Pod

_PARTS = {DEPLOYMENT.storage: REPLICA_SET, CRON_JOB.storage: JOB}
"""What is owned by a kind whose template is of pods, where that is not pods."""
_MOST_NAMED = 20
_UNSEEN: Object = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"""In place of a node that one may not see: nothing is said against it."""


@dataclass(slots=True)
class Inquiry:
    """Finds the causes. Lists that several objects need are read once."""

    client: Client
    now: float = field(default_factory=time.time)
    kinds: Kinds = field(init=False)
    _lists: dict[tuple[str, str | None], list[Object]] = field(default_factory=dict)
    _hidden: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kinds = Kinds(self.client)

    async def about(self, resource: Resource, obj: Object) -> list[Finding]:
        """Why the object is not as it should be; nothing if it is."""
        if obj["metadata"].get("deletionTimestamp"):
            return await self._staying(resource, obj)
        events = await events_about(self.client, resource, obj)
        told = reasons.warnings(events, self.now, known=obj)
        if resource is POD:
            return await self._pod(obj, told)
        found = reasons.held_back(obj) + reasons.conditions(obj)
        if resource is SERVICE:
            found += await self._service(obj)
        elif "template" in (obj.get("spec") or {}) or resource is CRON_JOB:
            found += await self._parts(resource, obj)
        else:
            return found + (told if found else [])
        return found + told if found else []

    # Why it is still there

    async def _staying(self, resource: Resource, obj: Object) -> list[Finding]:
        metadata = obj["metadata"]
        node = await self._node(obj) if resource is POD else None
        owned: list[str] = []
        if reasons.FOREGROUND in (metadata.get("finalizers") or ()):
            owned = [
                reference(kind, part["metadata"]["name"])
                for kind, part in await self._everything(metadata.get("namespace"))
                if _owned_by(part, {metadata["uid"]})
            ]
        found = reasons.staying(resource, obj, node, owned[:_MOST_NAMED], self.now)
        if resource is NAMESPACE:
            for kind, part in (await self._everything(metadata["name"]))[:_MOST_NAMED]:
                if part["metadata"].get("deletionTimestamp"):
                    name = reference(kind, part["metadata"]["name"])
                    found.append(Finding(name, tuple(await self._staying(kind, part))))
        return found

    async def _everything(self, namespace: str | None) -> list[tuple[Resource, Object]]:
        """All objects of a namespace, or all that are in none; those of custom kinds too."""
        kinds = [
            kind
            for kind in await self.kinds.served()
            if kind.namespaced == bool(namespace) and {"list", "delete"} <= set(kind.verbs)
        ]
        lists = await all_of(self._list(kind, namespace) for kind in kinds)
        found: dict[tuple[str, str, str], tuple[Resource, Object]] = {}
        for kind, items in zip(kinds, lists, strict=True):
            for obj in items:  # some are served in several versions
                metadata = obj["metadata"]
                found.setdefault((kind.kind, metadata["name"], metadata["uid"]), (kind, obj))
        return list(found.values())

    # Why it does not run

    async def _pod(self, pod: Object, told: list[Finding]) -> list[Finding]:
        if not pod["spec"].get("nodeName"):
            verdicts = await self._verdicts(pod)
            if verdicts is None:
                return [Finding(text) for text in why_pending(pod)]
            return reasons.unplaced(pod, verdicts)
        if condition_is_true(pod, "Ready") or _done(pod):
            return []
        found = reasons.not_running(pod, await self._node(pod), self.now) + told
        return found or [Finding(f"node {pod['spec']['nodeName']} has told nothing of it yet")]

    async def _verdicts(self, pod: Object) -> dict[str, list[Objection]] | None:
        """What each node has against the pod; None for who may not see all of the cluster."""
        lists = [await self._list(kind, None) for kind in (NODE, POD, NAMESPACE)]
        if self._hidden & {NODE.storage, POD.storage, NAMESPACE.storage}:
            return None
        nodes, pods, namespaces = lists
        return explain(
            decode(pod, Pod),
            [decode(item, Node) for item in nodes],
            [decode(item, Pod) for item in pods],
            {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in namespaces},
        )

    async def _node(self, pod: Object) -> Object | None:
        """A pod's node; None if it is gone."""
        name = pod["spec"].get("nodeName")
        nodes = await self._list(NODE, None)
        if NODE.storage in self._hidden:
            return _UNSEEN
        return next((node for node in nodes if node["metadata"]["name"] == name), None)

    async def _service(self, service: Object) -> list[Finding]:
        wanted = service["spec"].get("selector")
        if not wanted:
            return []
        selector = selector_of({"matchLabels": wanted})
        pods = await self._list(POD, service["metadata"]["namespace"])
        chosen = [pod for pod in pods if selector.matches(pod["metadata"].get("labels") or {})]
        if not chosen:
            return [Finding(f"no pod has the labels that it selects: {selector}")]
        if any(condition_is_true(pod, "Ready") for pod in chosen):
            return []
        return [Finding("none of its pods is ready", tuple(await self._grouped(POD, chosen)))]

    async def _parts(self, resource: Resource, obj: Object) -> list[Finding]:
        """The causes of what it owns that is not well."""
        kind = _PARTS.get(resource.storage, POD)
        namespace = obj["metadata"]["namespace"]
        parts = _owned(await self._list(kind, namespace), {obj["metadata"]["uid"]})
        if kind is REPLICA_SET:
            sets = {part["metadata"]["uid"] for part in parts}
            kind, parts = POD, _owned(await self._list(POD, namespace), sets)
        if kind is POD:
            parts = [pod for pod in parts if not condition_is_true(pod, "Ready") and not _done(pod)]
        return await self._grouped(kind, parts)

    async def _grouped(self, kind: Resource, objects: Sequence[Object]) -> list[Finding]:
        """The causes of each; objects with the same trouble are asked about once."""
        groups: dict[str, list[Object]] = {}
        for obj in objects:
            key = trouble(obj) if kind is POD else obj["metadata"]["name"]
            groups.setdefault(key, []).append(obj)
        found = []
        for first, *others in groups.values():
            if causes := await self.about(kind, first):
                name = reference(kind, first["metadata"]["name"])
                like_it = f" and {len(others)} more" if others else ""
                text = f"{name}{like_it}: {state(kind, first)}"
                found.append(Finding(text.rstrip(": "), tuple(causes)))
        return found

    async def _list(self, resource: Resource, namespace: str | None) -> list[Object]:
        """The objects of a kind; none, and that is noted, where one may not see them."""
        key = (resource.storage, namespace)
        if key not in self._lists:
            try:
                self._lists[key] = (await self.client.list(resource, namespace)).items
            except ApiError as error:
                if error.code not in (403, 404, 405):
                    raise
                self._lists[key] = []
                self._hidden.add(resource.storage)
        return self._lists[key]


def state(resource: Resource, obj: Object) -> str:
    """How an object is doing, in a few words; empty if its kind has none."""
    if obj["metadata"].get("deletionTimestamp"):
        return "its deletion was asked for"
    if resource is POD:
        summary = summarize(obj)
        return f"{summary.status}, {summary.ready} of {summary.total} containers ready"
    if resource in (DEPLOYMENT, DAEMON_SET):
        return progress(resource, obj).text
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if "replicas" in spec and "replicas" in status:
        return f"{status.get('readyReplicas') or 0} of {spec['replicas']} pods ready"
    return str(status.get("phase") or "")


def _done(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded"


def _owned(objects: Sequence[Object], uids: set[str]) -> list[Object]:
    return [obj for obj in objects if _owned_by(obj, uids)]


def _owned_by(obj: Object, uids: set[str]) -> bool:
    return any(owner["uid"] in uids for owner in obj["metadata"].get("ownerReferences") or ())


@click.command("why")
@click.argument("what", nargs=-1, metavar="TYPE/NAME")
@connection_options
@pass_session
def command(session: Session, what: tuple[str, ...]) -> None:
    """Tell why an object is pending, not ready or still there: `why deployment/web`."""

    async def tell(client: Client) -> None:
        inquiry = Inquiry(client)
        target = await inquiry.kinds.target(what)
        resource = target.resource
        space = session.namespace if resource.namespaced else None
        obj = await client.get(resource, target.name, space)
        found = await inquiry.about(resource, obj)
        head = [reference(resource, target.name), state(resource, obj)]
        echo(": ".join(text for text in head if text))
        for line in reasons.lines(found, "  ") or ["  nothing stands against it"]:
            echo(line)

    session.run(tell)
