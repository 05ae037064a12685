"""ConfigMap, Secret.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidateConfigMap and ValidateSecret.
"""

import json
from base64 import b64encode
from binascii import a2b_base64

from shepherd.api.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)
from shepherd.api.kinds.cells import AGE
from shepherd.api.kinds.checks import Errors, immutable, text
from shepherd.api.kinds.shape import fill
from shepherd.api.names import config_key
from shepherd.api.resource import Column, Object, Resource

MAX_BYTES = 1024 * 1024
"""Of all values of one ConfigMap or Secret together."""

_ACCOUNT_TYPE = "kubernetes.io/service-account-token"
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
_NEEDED_KEYS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_KEYS = (".dockerconfigjson", ".dockercfg")


def _default_secret(secret: Object) -> None:
    fill(secret, {"type": "Opaque"})
    overlay_string_data(secret)


def overlay_string_data(secret: Object) -> None:
    """`stringData` is only written: it is laid over `data`, and never read back."""
    if texts := secret.pop("stringData", None):
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = (secret.get("data") or {}) | encoded


def _validate_config_map(config: Object) -> list[FieldError]:
    found: list[FieldError] = []
    texts, binaries = config.get("data") or {}, config.get("binaryData") or {}
    for path, keys in (("data", texts), ("binaryData", binaries)):
        for key in keys:
            found += text(f"{path}[{key}]", key, config_key)
            if path == "data" and key in binaries:
                detail = "duplicate of key present in binaryData"
                found.append(invalid_value(f"data[{key}]", key, detail))
    size = sum(len(value.encode()) for value in texts.values())
    size += sum(len(a2b_base64(value)) for value in binaries.values())
    if size > MAX_BYTES:
        found.append(too_long("", MAX_BYTES))
    return found


def _validate_secret(secret: Object) -> list[FieldError]:
    found: list[FieldError] = []
    data = {key: a2b_base64(value) for key, value in (secret.get("data") or {}).items()}
    for key in data:
        found += text(f"data[{key}]", key, config_key)
    if sum(map(len, data.values())) > MAX_BYTES:
        found.append(too_long("data", MAX_BYTES))
    return found + list(_validate_secret_type(secret, data))


def _validate_secret_type(secret: Object, data: dict[str, bytes]) -> Errors:
    """Some types promise certain keys."""
    kind = secret.get("type") or ""
    for key in _NEEDED_KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
        elif key in _JSON_KEYS:
            try:
                json.loads(data[key])
            except ValueError as error:
                yield invalid_value(f"data[{key}]", "<secret contents redacted>", str(error))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield required("data[username]")
        yield required("data[password]")
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    if kind == _ACCOUNT_TYPE and not annotations.get(_ACCOUNT_ANNOTATION):
        yield required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]")


def _validate_update(obj: Object, old: Object) -> list[FieldError]:
    """What is marked immutable stays so, and so does its data."""
    if not old.get("immutable"):
        return []
    changed = [f for f in ("data", "binaryData") if (obj.get(f) or {}) != (old.get(f) or {})]
    if not obj.get("immutable"):
        changed.insert(0, "immutable")
    detail = "field is immutable when `immutable` is set"
    return [forbidden_field(field, detail) for field in changed]


def _validate_secret_update(secret: Object, old: Object) -> list[FieldError]:
    return [*immutable("type", secret.get("type"), old.get("type")), *_validate_update(secret, old)]


def _data_count(obj: Object, now: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def _secret_type(secret: Object, now: float) -> str:
    return str(secret.get("type") or "")


_DATA = Column("Data", _data_count, description="How many keys there are.")

CONFIG_MAP = Resource(
    group="",
    version="v1",
    kind="ConfigMap",
    plural="configmaps",
    short_names=("cm",),
    columns=(_DATA, AGE),
    validate=_validate_config_map,
    validate_update=_validate_update,
)

SECRET = Resource(
    group="",
    version="v1",
    kind="Secret",
    plural="secrets",
    columns=(Column("Type", _secret_type, description="What the data is for."), _DATA, AGE),
    default=_default_secret,
    validate=_validate_secret,
    validate_update=_validate_secret_update,
    fields=lambda secret: {"type": _secret_type(secret, 0)},
)
