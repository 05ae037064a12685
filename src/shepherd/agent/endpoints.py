"""The agent's own HTTP endpoints, under kubelet's names; only the server calls them.

`GET /healthz`, `GET /pods`, `GET /stats/summary`,
`GET /containerLogs/{namespace}/{pod}/{container}`, `/exec/{namespace}/{pod}/{container}`,
`/attach/{namespace}/{pod}/{container}`, `/portForward/{namespace}/{pod}` (see `streams`), and
Shepherd's own `GET /images` and `POST /images/load` (the archive as a streamed body).
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from shepherd.agent.logs import LogOptions, attempts, read
from shepherd.agent.node import Node
from shepherd.agent.pod_state import BoundPod, by_name, container_statuses
from shepherd.agent.pods import Pods
from shepherd.agent.stats import NodeStats
from shepherd.agent.streams.endpoints import StreamEndpoints
from shepherd.api import errors
from shepherd.api.meta import parse_time
from shepherd.api.resource import Object
from shepherd.lib.http import Request, Response, is_for_loopback
from shepherd.runtime.base import SheepError

_ADMIN_GROUP = "system:masters"


class Endpoints:
    """Answers what the server asks of this node. `handle` is a `lib.http.Handler`."""

    def __init__(self, node: Node, pods: Pods, *, insecure: bool) -> None:
        self._node = node
        self._pods = pods
        self._insecure = insecure
        self._stats = NodeStats(node.config.node_name, node.runtime, node.clock)
        self._streams = StreamEndpoints(node.runtime, pods)

    async def handle(self, request: Request) -> Response:
        try:
            return await self._route(request)
        except errors.ApiError as error:
            return _json(error.status(), error.code)

    async def _route(self, request: Request) -> Response:
        match (request.method, request.path.strip("/").split("/")):
            case ("GET", ["healthz"]):
                return Response(200, {"content-type": "text/plain"}, b"ok")
        self._authorize(request)
        match (request.method, request.path.strip("/").split("/")):
            case ("GET", ["containerLogs", namespace, pod, container]):
                return await self._logs(request, namespace, pod, container)
            case ("GET" | "POST", ["exec", namespace, pod, container]):
                return await self._streams.exec(request, namespace, pod, container)
            case ("GET" | "POST", ["attach", namespace, pod, container]):
                return await self._streams.attach(request, namespace, pod, container)
            case ("GET" | "POST", ["portForward", namespace, pod]):
                return await self._streams.port_forward(request, namespace, pod)
            case ("GET", ["pods"]):
                return _json({"kind": "PodList", "apiVersion": "v1", "metadata": {},
                              "items": [_shown(pod) for pod in self._pods.all()]})  # fmt: skip
            case ("GET", ["stats", "summary"]):
                return _json(await self._stats.summary())
            case ("GET", ["images"]):
                return _json({"images": await self._images()})
            case ("POST", ["images", "load"]):
                return await self._load(request)
        raise errors.path_not_found()

    def _authorize(self, request: Request) -> None:
        if self._insecure:
            if not is_for_loopback(request):
                raise errors.not_loopback()
            return
        if request.peer is None:
            raise errors.unauthorized()
        if _ADMIN_GROUP not in request.peer.groups:
            detail = f'user "{request.peer.name}" may not reach the agent'
            raise errors.forbidden("", "nodes", self._node.config.node_name, detail)

    # Logs

    async def _logs(self, request: Request, namespace: str, name: str, container: str) -> Response:
        pod = self._pods.find(namespace, name)
        if pod is None:
            raise errors.not_found("", "pods", name)
        names = [c.name for c in pod.spec.everyone]
        if container not in names:
            raise errors.bad_request(f"container {container} is not valid for pod {name}")
        directory = self._node.files.logs(pod.metadata.uid) / container
        found = await asyncio.to_thread(attempts, directory)
        worker = self._pods.worker(pod.metadata.uid)
        status = _status_of(worker.status if worker else pod.status, container)
        if request.param("previous") in ("true", "1"):
            before = _attempt(status.get("lastState", {}).get("terminated", {}))
            if before is None or before not in found:
                raise errors.bad_request(
                    f'previous terminated container "{container}" in pod "{name}" not found'
                )
            attempt = before
        elif not found and not status.get("containerID"):
            reason = status.get("state", {}).get("waiting", {}).get("reason", "ContainerCreating")
            raise errors.bad_request(
                f'container "{container}" in pod "{name}" is waiting to start: {reason}'
            )
        else:
            attempt = max(found, default=0)
        options = log_options(request, self._node.clock.now())
        body = read(
            self._node.files.log(pod.metadata.uid, container, attempt),
            options,
            clock=self._node.clock,
            running=lambda: worker is not None and worker.runs(container, attempt),
        )
        return Response(200, {"content-type": "text/plain"}, body)

    # Images

    async def _images(self) -> list[Object]:
        return [
            {"id": image.id, "names": [*image.tags, *image.digests], "sizeBytes": image.size_bytes}
            for image in await self._node.runtime.images.list()
        ]

    async def _load(self, request: Request) -> Response:
        """Import the archive that is sent."""
        directory = self._node.config.directory
        descriptor, name = tempfile.mkstemp(prefix="load-", suffix=".tar", dir=directory)
        path = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                async for chunk in _chunks(request):
                    await asyncio.to_thread(file.write, chunk)
            images = await self._node.images.load(path)
        except SheepError as error:
            # Only the sender knows the archive by a name that means something.
            message = error.message.replace(path.name, "it")
            raise errors.bad_request(f"cannot import the archive: {message}") from error
        except OSError as error:
            raise errors.insufficient_storage(f"cannot store the archive: {error}") from error
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        return _json({"images": [{"id": i.id, "names": [*i.tags]} for i in images]})


def log_options(request: Request, now: float) -> LogOptions:
    """The options of a log request. Raises ApiError 400 naming the parameter."""
    since = None
    if text := request.param("sinceTime"):
        try:
            since = parse_time(text)
        except ValueError:
            raise errors.bad_request(f"sinceTime {text!r} is not an RFC 3339 time") from None
    seconds = _number(request, "sinceSeconds")
    return LogOptions(
        follow=request.param("follow") in ("true", "1"),
        tail_lines=_number(request, "tailLines"),
        since=since if seconds is None else now - seconds,
        timestamps=request.param("timestamps") in ("true", "1"),
        limit_bytes=_number(request, "limitBytes"),
        stream={"Stdout": b"stdout", "Stderr": b"stderr"}.get(request.param("stream")),
    )


def _number(request: Request, name: str) -> int | None:
    text = request.param(name)
    if not text:
        return None
    if not text.isdecimal():
        raise errors.bad_request(f"{name} {text!r} is not a number of zero or more")
    return int(text)


def _status_of(status: Object, container: str) -> Object:
    return by_name(container_statuses(status)).get(container, {})


def _attempt(end: Object) -> int | None:
    """Which attempt a terminated state tells of: the last part of the container's id."""
    number = str(end.get("containerID", "")).rpartition("-")[2]
    return int(number) if number.isdecimal() else None


async def _chunks(request: Request) -> AsyncGenerator[bytes, None]:
    if request.stream is None:
        yield request.body
        return
    async for chunk in request.stream:
        yield chunk


def _shown(pod: BoundPod) -> Object:
    """What a debugger of the node wants to know of a pod."""
    meta = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
    return {"metadata": meta, "spec": msgspec.to_builtins(pod.spec), "status": pod.status}


def _json(value: object, code: int = 200) -> Response:
    return Response(code, {"content-type": "application/json"}, msgspec.json.encode(value))
