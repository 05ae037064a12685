"""The OpenAPI v2 document: its frame, without definitions.

kubectl asks for it when it validates what the server cannot, a `List`, and validates what the
document defines; what it does not define it leaves to the server, which validates each object by
`fieldValidation`. All else reads v3. Source: cli-runtime resource/query_param_verifier_v3.go;
gnostic openapiv2/OpenAPIv2.proto.
"""

import msgspec

from shepherd.lib.http import Request, Response
from shepherd.server.version import VERSION

_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What is asked for has a `@`, which no parser of media types takes in an answer."""
_JSON = "application/json"
_TITLE = "Kubernetes"


def openapi_v2(request: Request) -> Response:
    """The document, in the form that is asked for."""
    version = VERSION["gitVersion"]
    if "proto-openapi" in request.headers.get("accept", ""):
        info = _text(1, _TITLE) + _text(2, version)
        return Response(200, {"content-type": _PROTOBUF}, _text(1, "2.0") + _part(2, info))
    info_json = {"title": _TITLE, "version": version}
    document = {"swagger": "2.0", "info": info_json, "paths": {}, "definitions": {}}
    return Response(200, {"content-type": _JSON}, msgspec.json.encode(document))


def _part(number: int, content: bytes) -> bytes:
    """A protobuf field of bytes, fewer than 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def _text(number: int, text: str) -> bytes:
    return _part(number, text.encode())
