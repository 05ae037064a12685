"""Whatever reads what a client sends: any text or bytes is read, or refused with a reason.

One row of DECODERS for each reader: what it is given, how it is called, and the one kind of error
that it may raise.
"""

import base64
import datetime
import itertools
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.agent.env import expand
from shepherd.agent.streams import channels
from shepherd.agent.streams.websocket import Parser, WebSocketError
from shepherd.api import jsonpath
from shepherd.api.cel.expressions import CelError, compile_rule, find_all
from shepherd.api.custom.formats import fits
from shepherd.api.decode import PROTOBUF, decode_object, decode_value
from shepherd.api.errors import ApiError
from shepherd.api.kinds.cron import Schedule
from shepherd.api.names import check_name, env_name, label_value, qualified_name
from shepherd.api.patch import json_patch, merge_patch
from shepherd.api.protobuf import MAGIC
from shepherd.api.quantity import QuantityError, parse_quantity
from shepherd.api.schema import get_type
from shepherd.api.selectors import parse_field_selector, parse_selector
from shepherd.api.strategic import strategic_merge
from shepherd.lib import spdy
from shepherd.lib.http import Request, is_for_loopback, parse_query
from shepherd.runtime.base import SheepError
from shepherd.runtime.oci.references import parse as parse_image
from shepherd.server.forms import negotiate
from shepherd.server.reads import read_token

Read = Callable[[Any], object]


class Decoder(NamedTuple):
    given: st.SearchStrategy[Any]
    read: Read
    refuses: type[Exception] | tuple[type[Exception], ...] = ()


def near(alphabet: str, words: str, most: int = 12) -> st.SearchStrategy[str]:
    """Texts of these words and characters, and sometimes of any others."""
    parts = st.sampled_from([*words.split(" "), *alphabet]) | st.text(max_size=2)
    return st.lists(parts, max_size=most).map("".join)


# -- values ------------------------------------------------------------------------------------

EDGES = [0, -1, 2**31, 2**63 - 1, -(2**63), 2**64, 1e300, -1.5, "", "a\0b", "é", "\N{PILE OF POO}"]
leaves = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(EDGES)
    | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "name", "$patch", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)
pointers = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "", "~0", "~1", "~", "01"])).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]) | leaves},
        optional={"path": pointers | leaves, "from": pointers | leaves, "value": values},
    )
    | values,
    max_size=6,
)
pod_fields = [
    "metadata", "spec", "containers", "name", "image", "env", "ports", "labels", "a", "volumes",
    "finalizers", "$patch", "$retainKeys", "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
]  # fmt: skip
pods = st.recursive(
    leaves | st.sampled_from(["delete", "replace", "merge"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(pod_fields), inner, max_size=4)
    ),
    max_leaves=12,
)
POD = {
    "metadata": {"name": "a", "labels": {"a": "b"}, "finalizers": ["x/y"]},
    "spec": {"containers": [{"name": "a", "image": "b", "env": [{"name": "A", "value": "1"}]}]},
}

# -- bytes -------------------------------------------------------------------------------------


def message(fields: list[tuple[int, int, bytes]]) -> bytes:
    """Fields of protobuf: number, wire type, content with its length if the wire type has one."""
    head = [(number << 3 | kind, kind, content) for number, kind, content in fields]
    return b"".join(
        bytes([tag & 0xFF]) + (bytes([len(content)]) if kind == 2 else b"") + content
        for tag, kind, content in head
    )


fields = st.lists(
    st.tuples(st.integers(1, 15), st.sampled_from([0, 1, 2, 2, 2, 5]), st.binary(max_size=10)),
    max_size=5,
).map(message)
messages = st.lists(
    st.tuples(st.integers(1, 15), st.just(2), fields.map(lambda data: data[:100])), max_size=3
).map(message)
envelopes = (messages | fields | st.binary(max_size=60)).map(
    lambda data: MAGIC + message([(1, 2, b"\x0a\x02v1\x12\x03Pod"), (2, 2, data[:120])])
)
frames = st.lists(
    st.builds(
        lambda first, second, data: struct.pack(">II", first, second << 24 | len(data)) + data,
        st.sampled_from([1, 3, 0x80030001, 0x80030003, 0x80030006, 0x80030008, 0x80020001]),
        st.integers(0, 3),
        st.binary(max_size=30)
        | st.binary(max_size=40).map(lambda plain: bytes(10) + deflated(plain)),
    ),
    max_size=4,
).map(b"".join)
web_frames = st.lists(
    st.builds(
        lambda head, size, data: bytes([head, 0x80 | size]) + data,
        st.sampled_from([0x01, 0x80, 0x81, 0x82, 0x02, 0x00, 0x88, 0x89, 0x0F, 0xF1]),
        st.integers(0, 127),
        st.binary(max_size=20),
    ),
    max_size=5,
).map(b"".join)


def deflated(plain: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
    return deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)


# -- how each is read --------------------------------------------------------------------------


def read_pod(media: str) -> Read:
    return lambda body: decode_object(body, media, "", "v1", "Pod").object


def read_yaml(body: bytes) -> object:
    value, _ = decode_value(body, "application/yaml")
    return json.dumps(value, allow_nan=False)


def read_cel(pair: tuple[str, Any]) -> object:
    return compile_rule(pair[0]).evaluate(pair[1])


def read_path(text: str) -> object:
    return jsonpath.parse(text).find({"a": [{"b": 1, "name": "x"}, 2], "b": {"a": None}})


def read_cron(text: str) -> object:
    now = datetime.datetime(2026, 3, 28, tzinfo=datetime.UTC).timestamp()
    return list(itertools.islice(Schedule.parse(text).times(now, ZoneInfo("Europe/Berlin")), 2))


def read_host(pair: tuple[str, str]) -> object:
    return is_for_loopback(Request("GET", "/", headers={"host": pair[0], "origin": pair[1]}))


def all_formats(text: str) -> object:
    names = ("hostname", "email", "duration", "date-time", "ipv4", "cidr", "uri", "uuid", "mac")
    return [fits(name, text) for name in names]


def all_names(text: str) -> object:
    rules = ("dns1123subdomain", "dns1123label", "dns1035label", "path")
    found = [check_name(rule, text, prefix=prefix) for rule in rules for prefix in (True, False)]
    return [*found, qualified_name(text), label_value(text), env_name(text)]


_CEL = near(
    "()[]{}.?:!-+*/<>=&|,'\"",
    "self oldSelf size() has( all(x, .map(x, 1 'a' in == true \
    matches(' duration( timestamp( quantity( url( .a [0] null 0x1 9223372036854775807 b'' r'",
)
_hosts = near(
    ".:[]@%-0", "localhost 127.0.0.1 evil.example [::1] :80 0x7f.1 127.1 ::ffff:127.0.0.1"
)
DECODERS = {
    "JSON": Decoder(
        near('{}[],:"\\ ', '"a" 1 -0 1e9 1e999 null true "\\ud800" "\\u0000" metadata name').map(
            str.encode
        )
        | st.binary(max_size=40),
        read_pod("application/json"),
        ApiError,
    ),
    "YAML": Decoder(
        near(
            ":-[]{}&*!|>#%@`'\",? \n\t",
            "a: - &a *a <<: !!int !!str 0x1 0o7 .inf 1e3 ~ --- ... |- 'x \
            %YAML yes \\x00",
        ).map(str.encode)
        | st.binary(max_size=40),
        read_yaml,
        ApiError,
    ),
    "protobuf": Decoder(envelopes, read_pod(PROTOBUF), ApiError),
    "any JSON as a Pod": Decoder(
        pods, lambda value: read_pod("")(json.dumps(value).encode()), ApiError
    ),
    "media types": Decoder(
        near("/;=+ ,", "application json yaml text patch charset=utf-8"),
        lambda text: decode_value(b"{}", text),
        ApiError,
    ),
    "merge patches": Decoder(st.tuples(values, values), lambda pair: merge_patch(*pair), ApiError),
    "JSON patches": Decoder(
        st.tuples(values, operations | values), lambda pair: json_patch(*pair), ApiError
    ),
    "strategic merge patches": Decoder(
        st.dictionaries(st.sampled_from(pod_fields), pods),
        lambda patch: strategic_merge(POD, patch, get_type("core.v1.Pod")),
        ApiError,
    ),
    "label selectors": Decoder(near("=!(),<> ", "a in notin b x/y 1 =="), parse_selector, ApiError),
    "field selectors": Decoder(
        near("=!\\, ", "metadata.name spec.a == != b"), parse_field_selector, ApiError
    ),
    "continue tokens": Decoder(
        st.text("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0Ijoi=-_é", max_size=40)
        | st.builds(
            lambda rv, start: base64.urlsafe_b64encode(
                json.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": start}).encode()
            ).decode(),
            leaves,
            leaves,
        ),
        lambda text: read_token(text, {}),
        ApiError,
    ),
    "Accept": Decoder(
        near("/;=,*+ ", "application json as=Table v=v1 g=meta.k8s.io q=0.5 */*"),
        negotiate,
        ApiError,
    ),
    "queries": Decoder(near("&=%+;", "a %00 %ff %zz limit"), parse_query),
    "Host and Origin": Decoder(
        st.tuples(_hosts, _hosts.map("http://".__add__) | _hosts), read_host
    ),
    "JSONPath": Decoder(
        near(".[]?()@*:'\"\\=<>!${} ", "a b [?( @.a == 'x' )] .. [*] [0] [1:2] name"),
        read_path,
        jsonpath.JsonPathError,
    ),
    "quantities": Decoder(
        near("0123456789.+-eEinumkKMGTP", "Ki 1e9"), parse_quantity, QuantityError
    ),
    "CEL": Decoder(st.tuples(_CEL, values), read_cel, CelError),
    "patterns in CEL": Decoder(
        st.tuples(
            st.text(max_size=10), near("[]()?<>P^$|*+{}\\.:", "(?P<a> [[:alpha:]] a \\pL \\Q")
        ),
        lambda pair: find_all(*pair),
        (CelError, ValueError),
    ),
    "cron": Decoder(
        near("*/,-? ", "0 1 59 60 mon jan @every 1h @daily TZ=UTC L #", most=10),
        read_cron,
        ValueError,
    ),
    "formats": Decoder(near(".-:/@ ", "aaaaaaaa 1 255 ::1 T00:00:00Z 2026-01-01 1h"), all_formats),
    "names": Decoder(near(".-_/ ", "a A0 0 .. x/y %"), all_names),
    "expansions": Decoder(near("$()", "$(A) $$ $( A"), lambda text: expand(text, {"A": "1"})),
    "image references": Decoder(
        near("/:@.-_", "docker.io library/nginx sha256:" + "0" * 64 + " latest localhost:5000"),
        parse_image,
        SheepError,
    ),
    "SPDY frames": Decoder(
        frames | st.binary(max_size=100), lambda data: spdy.Decoder().feed(data), spdy.SpdyError
    ),
    "WebSocket frames": Decoder(
        web_frames | st.binary(max_size=60), lambda data: Parser().feed(data), WebSocketError
    ),
    "terminal sizes": Decoder(
        near('{}":,', '"Width" "Height" 80 -1 1e9 null').map(str.encode) | st.binary(max_size=20),
        channels.sizes,
    ),
    "subprotocols": Decoder(
        near(", .", "v4.channel.k8s.io v5.channel.k8s.io"),
        lambda text: channels.choose(channels.offered(text), ["v5.channel.k8s.io"]),
    ),
}


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_anything_is_read_or_refused_with_a_reason(name: str, data: st.DataObject) -> None:
    decoder, reason = DECODERS[name], "it was read"
    try:
        decoder.read(data.draw(decoder.given))
    except decoder.refuses as error:
        reason = str(error)
    assert reason
