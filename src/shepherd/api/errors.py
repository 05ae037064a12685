"""Errors of the API, as the `Status` objects that Kubernetes clients know.

Source: apimachinery `meta/v1` Status and `api/errors`; k8s API conventions, "Response Status Kind".
"""

import json
from dataclasses import dataclass
from typing import Any

Status = dict[str, Any]

MAX_ERRORS = 100
"""Fields named in one answer; how many more there are is told."""
MAX_SHOWN = 4096
"""Characters of a refused value that are shown."""
MAX_MESSAGE = 64 * 1024
"""Characters of a message: an answer must not be many times larger than what was asked."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field.

    `type` is a Kubernetes cause: FieldValueRequired, FieldValueInvalid, FieldValueNotSupported,
    FieldValueForbidden, FieldValueDuplicate, FieldValueTypeInvalid, FieldValueTooLong,
    FieldValueTooMany, FieldValueNotFound.
    """

    type: str
    field: str
    """A path such as `spec.containers[0].name`."""
    message: str

    def cause(self) -> dict[str, str]:
        field, message = _cut(self.field, MAX_SHOWN), _cut(self.message, 2 * MAX_SHOWN)
        return {"reason": self.type, "message": message, "field": field}


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, _text("Required value", None, detail))


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, _text("Invalid value", value, detail))


def not_supported(field: str, value: object, allowed: list[str]) -> FieldError:
    names = ", ".join(f'"{name}"' for name in allowed)
    text = _text("Unsupported value", value, f"supported values: {names}")
    return FieldError("FieldValueNotSupported", field, text)


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, _text("Forbidden", None, detail))


def duplicate(field: str, value: object) -> FieldError:
    return FieldError("FieldValueDuplicate", field, _text("Duplicate value", value, ""))


def too_long(field: str, limit: int) -> FieldError:
    text = _text("Too long", None, f"may not be more than {limit} bytes")
    return FieldError("FieldValueTooLong", field, text)


def too_many(field: str, count: int, limit: int) -> FieldError:
    text = _text("Too many", None, f"{count}: must have at most {limit} items")
    return FieldError("FieldValueTooMany", field, text)


def type_invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", field, _text("Invalid value", value, detail))


def _text(head: str, value: object, detail: str) -> str:
    if value is not None:
        shown = f'"{value}"' if isinstance(value, str) else _go_value(value)
        head = f"{head}: {_cut(shown, MAX_SHOWN)}"
    return f"{head}: {detail}" if detail else head


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def _go_value(value: object) -> str:
    if isinstance(value, bool | dict | list):
        return json.dumps(value, separators=(",", ":"), default=str)
    if isinstance(value, list):
        items = ", ".join(f'"{item}"' if isinstance(item, str) else str(item) for item in value)
        return f"[]string{{{items}}}"
    return str(value)


class ApiError(Exception):
    """An answer other than success. `str(error)` is the message a person reads."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        message = _cut(message, MAX_MESSAGE)
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.headers = headers or {}
        self.warnings: list[str] = []
        """What else to tell the user, in `Warning` headers."""

    def status(self) -> Status:
        """The `Status` object of the answer."""
        body: Status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            body["details"] = self.details
        # Clients compare the text, so the order is Kubernetes'.
        return body | {"code": self.code}

    @classmethod
    def from_status(cls, code: int, body: Status) -> "ApiError":
        """The error that a `Status` object describes (`code` is the HTTP status)."""
        return cls(
            int(body.get("code") or code),
            str(body.get("reason") or ""),
            str(body.get("message") or f"the server answered {code}"),
            details=body.get("details"),
        )


def _details(group: str, kind: str, name: str = "") -> dict[str, Any]:
    details = {"name": _cut(name, MAX_SHOWN), "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}


def qualified(group: str, plural: str) -> str:
    """`deployments.apps`, `pods`: how messages name a resource."""
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiError:
    message = f'{qualified(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", message, details=_details(group, plural, name))


def not_loopback() -> ApiError:
    """Where nobody has to prove who they are, only this machine's own programs are answered."""
    message = (
        "without authentication (--insecure) only requests for localhost are answered: "
        "Host (and Origin, if sent) must name it"
    )
    return ApiError(403, "Forbidden", message)


def path_not_found() -> ApiError:
    """The answer for a path that the API does not have."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(group: str, plural: str, name: str) -> ApiError:
    message = f'{qualified(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=_details(group, plural, name))


def conflict(group: str, plural: str, name: str, detail: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {detail}'
    return ApiError(409, "Conflict", message, details=_details(group, plural, name))


def invalid(group: str, kind: str, name: str, errors: list[FieldError]) -> ApiError:
    """422 naming each field. `kind` is the kind, not the plural, as upstream."""
    told, more = errors[:MAX_ERRORS], len(errors) - MAX_ERRORS
    parts = [f"{error.field}: {error.message}" for error in told]
    if more > 0:
        parts.append(f"and {more} more errors")
    text = parts[0] if len(parts) == 1 else "[" + ", ".join(parts) + "]"
    details = _details(group, kind, name) | {"causes": [error.cause() for error in told]}
    message = f'{qualified(group, kind)} "{name}" is invalid: {text}'
    return ApiError(422, "Invalid", message, details=details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> ApiError:
    return ApiError(401, "Unauthorized", message)


def forbidden(group: str, plural: str, name: str, detail: str) -> ApiError:
    subject = qualified(group, plural) + (f' "{name}"' if name else "")
    details = _details(group, plural, name)
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {detail}", details=details)


def method_not_allowed(method: str) -> ApiError:
    message = f"the server does not allow this method ({method}) on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def not_acceptable(message: str) -> ApiError:
    return ApiError(406, "NotAcceptable", message)


def expired(message: str) -> ApiError:
    """410: the asked resourceVersion or continue token is too old."""
    return ApiError(410, "Expired", message)


def too_large(limit: int) -> ApiError:
    message = f"the request body is larger than {limit} bytes"
    return ApiError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)


def too_many_requests(message: str, retry_after_seconds: int = 1) -> ApiError:
    """With 0 seconds it is the client's to choose when to try again."""
    if not retry_after_seconds:
        return ApiError(429, "TooManyRequests", message)
    return ApiError(
        429,
        "TooManyRequests",
        message,
        details={"retryAfterSeconds": retry_after_seconds},
        headers={"retry-after": str(retry_after_seconds)},
    )


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")


def unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def insufficient_storage(message: str) -> ApiError:
    """507: the disk refused the write; nothing changed, reads go on."""
    return ApiError(507, "InsufficientStorage", message)
