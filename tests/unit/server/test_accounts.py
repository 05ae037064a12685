"""Which pods get the token of which account."""

import asyncio
from random import Random
from typing import Any

import pytest

from shepherd.lib.clock import SystemClock
from shepherd.server.accounts import MOUNT_PATH, mount_token
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig
from shepherd.store.memory import MemoryStore

SPACE = "/api/v1/namespaces/default"


@pytest.fixture
async def api(api: Any) -> Any:
    """An API that gives tokens, without the accounts that controllers would make."""
    api.server = ApiServer(
        MemoryStore(),
        config=ServerConfig(pod_tokens=True),
        clock=SystemClock(),
        random=Random(1),
        authenticator=InsecureAuthenticator(),
    )
    await api.server.start()
    return api


async def make_account(api: Any, name: str, **fields: Any) -> None:
    await api.ok("POST", f"{SPACE}/serviceaccounts", {"metadata": {"name": name}} | fields)


def pod(**spec: Any) -> Any:
    containers = [{"name": "a", "image": "b"}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers} | spec}


async def test_every_container_finds_token_ca_and_namespace(api: Any) -> None:
    await make_account(api, "default")
    inits = [{"name": "i", "image": "b"}]
    spec = (await api.ok("POST", f"{SPACE}/pods", pod(initContainers=inits)))["spec"]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    for container in (*spec["initContainers"], *spec["containers"]):
        mount = {"name": volume["name"], "readOnly": True, "mountPath": MOUNT_PATH}
        assert container["volumeMounts"] == [mount]
    token, ca, namespace = volume["projected"]["sources"]
    assert token == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    assert ca["configMap"]["name"] == "kube-root-ca.crt"
    assert ca["configMap"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    (item,) = namespace["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.namespace"


@pytest.mark.parametrize(
    ("account", "wanted", "mounted"),
    [(None, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
async def test_the_pod_has_the_word_before_its_account(
    api: Any, account: bool | None, wanted: bool | None, mounted: bool
) -> None:
    await make_account(api, "mine", automountServiceAccountToken=account)
    body = pod(serviceAccountName="mine", automountServiceAccountToken=wanted)
    spec = (await api.ok("POST", f"{SPACE}/pods", body))["spec"]
    assert bool(spec.get("volumes")) == mounted


async def test_what_is_mounted_there_already_stays() -> None:
    own = {"name": "own", "mountPath": MOUNT_PATH}
    spec: Any = {"containers": [{"name": "a", "volumeMounts": [own]}, {"name": "b"}]}
    mount_token(spec, "kube-api-access-x")
    assert spec["containers"][0]["volumeMounts"] == [own]
    assert spec["containers"][1]["volumeMounts"][0]["name"] == "kube-api-access-x"
    brought: Any = {"containers": [{"name": "a"}], "volumes": [{"name": "kube-api-access-mine"}]}
    mount_token(brought, "kube-api-access-x")
    assert len(brought["volumes"]) == 1
    assert brought["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-mine"


async def test_an_account_that_is_not_there_is_named(api: Any) -> None:
    status = await api.fails(403, "POST", f"{SPACE}/pods", pod(serviceAccountName="none"))
    assert status["message"] == (
        'pods "p" is forbidden: error looking up service account default/none: '
        'serviceaccount "none" not found'
    )


async def test_the_account_of_a_new_namespace_is_waited_for(api: Any) -> None:
    made = asyncio.create_task(api.ok("POST", f"{SPACE}/pods", pod()))
    await asyncio.sleep(0)
    await make_account(api, "default", imagePullSecrets=[{"name": "s"}])
    spec = (await made)["spec"]
    assert spec["volumes"]
    assert spec["imagePullSecrets"] == [{"name": "s"}]
