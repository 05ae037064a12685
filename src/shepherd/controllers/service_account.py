"""Service accounts: every namespace has one named `default`.

Source: kubernetes pkg/controller/serviceaccount/serviceaccounts_controller.go.
"""

from shepherd.api.objects import Namespace
from shepherd.client.informer import PartialObject
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers
from shepherd.controllers.namespace import on_namespaces

DEFAULT = "default"


class ServiceAccountController:
    """Makes the account when a namespace appears, and again if somebody deletes it."""

    name = "serviceaccount"

    def __init__(self, informers: Informers, accounts: Writer[PartialObject]) -> None:
        self._informers = informers
        self._accounts = accounts

    def connect(self, queue: WorkQueue) -> None:
        def account_changed(old: PartialObject | None, new: PartialObject | None) -> None:
            if old and not new and old.metadata.name == DEFAULT:
                queue.add(old.metadata.namespace)

        on_namespaces(self._informers, queue)
        self._informers.service_accounts.on_change(account_changed)

    async def reconcile(self, key: str) -> float | None:
        namespace: Namespace | None = self._informers.namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp:
            return None
        if self._informers.service_accounts.get(f"{key}/{DEFAULT}") is None:
            await self._accounts.create({"metadata": {"name": DEFAULT, "namespace": key}})
        return None
