"""Lists: pages, selectors, versions, and the forms that clients ask for."""

from typing import Any

import pytest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


async def make(api: Any, count: int, **labels: str) -> None:
    for number in range(count):
        metadata = {"name": f"c{number}", "labels": labels | {"n": str(number)}}
        await api.ok("POST", CONFIG_MAPS, {"metadata": metadata})


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_pages_are_of_one_snapshot(api: Any) -> None:
    await make(api, 5)
    first = await api.ok("GET", f"{CONFIG_MAPS}?limit=2")
    assert names(first) == ["c0", "c1"]
    assert first["metadata"]["remainingItemCount"] == 3
    await api.ok("DELETE", f"{CONFIG_MAPS}/c3")
    await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "c2b"}})
    token = first["metadata"]["continue"]
    second = await api.ok("GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert names(second) == ["c2", "c3"]
    version = first["metadata"]["resourceVersion"]
    assert second["metadata"]["resourceVersion"] == version
    token = second["metadata"]["continue"]
    last = await api.ok("GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert names(last) == ["c4"]
    assert "continue" not in last["metadata"]


async def test_a_token_outlives_compaction_as_an_inconsistent_one(api: Any) -> None:
    """kubernetes/kubernetes#66981, #67284; folio-pro/kdashboard#70;
    kubernetes-client/python#953: the whole list failed."""
    await make(api, 4)
    first = await api.ok("GET", f"{CONFIG_MAPS}?limit=2")
    await api.ok("DELETE", f"{CONFIG_MAPS}/c2")
    await api.store.compact(0)
    token = first["metadata"]["continue"]
    status = await api.fails(410, "GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert status["reason"] == "Expired"
    token = status["metadata"]["continue"]
    rest = await api.ok("GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert names(rest) == ["c3"]


async def test_selectors_choose_and_pages_still_fill(api: Any) -> None:
    await make(api, 6, app="web")
    listed = await api.ok("GET", f"{CONFIG_MAPS}?labelSelector=n+in+(1,3,5)&limit=2")
    assert names(listed) == ["c1", "c3"]
    token = listed["metadata"]["continue"]
    rest = await api.ok("GET", f"{CONFIG_MAPS}?labelSelector=n+in+(1,3,5)&limit=2&continue={token}")
    assert names(rest) == ["c5"]
    listed = await api.ok("GET", f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc2")
    assert names(listed) == ["c2"]
    listed = await api.ok("GET", "/api/v1/configmaps?fieldSelector=metadata.name!%3Dc2&limit=500")
    assert names(listed) == ["c0", "c1", "c3", "c4", "c5"]


async def test_fields_of_a_kind_can_be_selected_and_others_cannot(api: Any) -> None:
    pod = {"spec": {"containers": [{"name": "a", "image": "b"}]}}
    for name in ("p", "q"):
        await api.ok("POST", PODS, pod | {"metadata": {"name": name}})
    await api.ok("POST", f"{PODS}/p/binding", {"target": {"name": "n1"}})
    selector = "spec.nodeName%3Dn1,status.phase!%3DFailed"
    assert names(await api.ok("GET", f"/api/v1/pods?fieldSelector={selector}")) == ["p"]
    status = await api.fails(400, "GET", f"{PODS}?fieldSelector=spec.colour%3Dred")
    assert "field label not supported: spec.colour" in status["message"]
    status = await api.fails(400, "GET", f"{CONFIG_MAPS}?fieldSelector=data%3Dx")
    assert '"data" is not a known field selector' in status["message"]


async def test_versions_of_a_list(api: Any) -> None:
    await make(api, 2)
    version = (await api.ok("GET", CONFIG_MAPS))["metadata"]["resourceVersion"]
    await api.ok("DELETE", f"{CONFIG_MAPS}/c0")
    exact = f"{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact"
    listed = await api.ok("GET", exact)
    assert names(listed) == ["c0", "c1"]
    assert listed["metadata"]["resourceVersion"] == version
    for query in ("resourceVersion=0", f"resourceVersion={version}", "resourceVersion="):
        assert names(await api.ok("GET", f"{CONFIG_MAPS}?{query}")) == ["c1"]
    await api.store.compact(0)
    assert (await api.fails(410, "GET", exact))["reason"] == "Expired"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=-1", 400),
        ("limit=many", 400),
        ("continue=nonsense", 400),
        ("continue=bm9uc2Vuc2U", 400),
        ("resourceVersion=abc", 400),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Near", 422),
        ("labelSelector=a+in+(", 400),
        ("fieldSelector=metadata.name", 400),
        ("timeoutSeconds=x&watch=1", 400),
        ("watch=1&sendInitialEvents=true", 422),
        ("watch=1&resourceVersionMatch=NotOlderThan", 422),
        ("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", 422),
    ],
)
async def test_malformed_options_are_refused(api: Any, query: str, code: int) -> None:
    await api.fails(code, "GET", f"{CONFIG_MAPS}?{query}")


async def test_a_version_that_is_to_come_is_awaited_for_a_while(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shepherd.server.reads._FRESH_SECONDS", 0.01)
    future = api.store.revision + 1000
    status = await api.fails(504, "GET", f"{CONFIG_MAPS}?resourceVersion={future}")
    assert status["reason"] == "Timeout"
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert "Too large resource version" in status["message"]


async def test_a_table_has_the_columns_of_the_kind(api: Any) -> None:
    await make(api, 1)
    table = await api.ok("GET", CONFIG_MAPS, accept=TABLE)
    assert table["kind"] == "Table"
    assert table["apiVersion"] == "meta.k8s.io/v1"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    (row,) = table["rows"]
    assert row["cells"][0] == "c0"
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["namespace"] == "default"
    assert table["metadata"]["resourceVersion"]
    one = await api.ok("GET", f"{CONFIG_MAPS}/c0", accept=TABLE)
    assert one["rows"] == table["rows"]
    whole = await api.ok("GET", f"{CONFIG_MAPS}?includeObject=Object", accept=TABLE)
    assert whole["rows"][0]["object"] == await api.ok("GET", f"{CONFIG_MAPS}/c0")
    none = await api.ok("GET", f"{CONFIG_MAPS}?includeObject=None", accept=TABLE)
    assert "object" not in none["rows"][0]
    await api.fails(400, "GET", f"{CONFIG_MAPS}?includeObject=Some", accept=TABLE)


async def test_metadata_alone(api: Any) -> None:
    await make(api, 2)
    listed = await api.ok("GET", CONFIG_MAPS, accept=PARTIAL)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert names(listed) == ["c0", "c1"]
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_a_form_that_is_not_served_is_406(api: Any) -> None:
    await api.fails(406, "GET", CONFIG_MAPS, accept="text/html")
    await api.ok("GET", CONFIG_MAPS, accept="application/vnd.kubernetes.protobuf,application/json")


async def test_a_long_list_is_whole(api: Any) -> None:
    for number in range(1203):
        await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": f"c{number:04}"}})
    assert len((await api.ok("GET", CONFIG_MAPS))["items"]) == 1203
    listed = await api.ok("GET", f"{CONFIG_MAPS}?fieldSelector=metadata.name!%3Dc0000")
    assert len(listed["items"]) == 1202
    table = await api.ok("GET", CONFIG_MAPS, accept=TABLE)
    assert len(table["rows"]) == 1203
