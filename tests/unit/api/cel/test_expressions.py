"""CEL: the functions of Kubernetes' libraries, and what happens to expressions that are wrong."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.api.cel.expressions import CelError, compile_expression
from shepherd.api.cel.shapes import measured

VALUE = {"l": [3, 1, 2, 1], "s": "abc123def45", "m": {"a": 1, "b": 2}}
ANSWERS: list[tuple[str, Any]] = [
    ("self.l.indexOf(1)", 1),
    ("self.l.lastIndexOf(1)", 3),
    ("self.l.indexOf(7)", -1),
    ("self.s.indexOf('1')", 3),
    ("'abab'.lastIndexOf('b')", 3),
    ("'abab'.lastIndexOf('b', 2)", 1),
    ("self.l.max() + self.l.min()", 4),
    ("self.l.sum()", 7),
    ("self.l.isSorted()", False),
    ("self.l.includes(2) && !self.l.includes(9) && 'a'.includes('a')", True),
    ("[2, 1].sort()", [1, 2]),
    ("lists.range(3)", [0, 1, 2]),
    ("self.s.find('([0-9])+')", "123"),
    ("self.s.find('x')", ""),
    ("self.s.findAll('[0-9]+')", ["123", "45"]),
    (r"self.s.findAll('(?P<x>[0-9])(\\d)', 1)", ["12"]),
    (r"'a(b'.find('\\(b')", "(b"),
    ("'a(b'.find('[(]b')", "(b"),
    ("format.dns1123Label().validate('a.b').hasValue()", True),
    ("!format.dns1123Label().validate('ab').hasValue()", True),
    ("format.named('uuid').value().validate('x)').value()", ["does not match the UUID format"]),
    ("format.named('nope').hasValue()", False),
    ("semver('1.2.3').isLessThan(semver('1.10.0'))", True),
    ("semver('v1.2', true).patch()", 0),
    ("semver('1.0.0-alpha.1').compareTo(semver('1.0.0'))", -1),
    ("isSemver('200K')", False),
    ("ip('10.0.0.1').family()", 4),
    ("isIP('::ffff:1.2.3.4') || isIP('1.2.3.04')", False),
    ("ip('ff02::1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast()", True),
    ("ip('224.0.1.1').isLinkLocalMulticast() || ip('ff00::1').isGlobalUnicast()", False),
    ("ip.isCanonical('2001:DB8::ABCD')", False),
    ("cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')", True),
    ("cidr('192.168.0.0/16').containsIP(ip('192.168.1.1'))", True),
    ("cidr('192.168.0.1/24').ip().family()", 4),
    ("cidr('192.168.0.0/16').prefixLength()", 16),
    ("cidr('192.168.0.0/16').containsCIDR('192.168.3.0/24')", True),
    ("quantity('1Gi').add(quantity('1Gi')).compareTo(quantity('2Gi'))", 0),
    ("quantity('5').sub(2).asInteger()", 3),
    ("quantity('50k').asApproximateFloat()", 50000.0),
    ("url('https://a.b:80/p%20q?x=1').getEscapedPath()", "/p%20q"),
    ("url('https://a.b:80/p?x=1&x=2').getQuery()['x'][1]", "2"),
    ("[1, 2].exists(i, v, i == 0 && v == 1)", True),
    ("self.l.transformList(i, v, v * i)", [0, 1, 4, 3]),
    ("self.m.transformMap(k, v, v * 2)", {"a": 2, "b": 4}),
    ("self.m.transformMap(k, v, v > 1, k)", {"b": "b"}),
    ("self.m.transformMapEntry(k, v, {string(v): k})", {"1": "a", "2": "b"}),
    ("math.greatest(1, 2)", 2),
    ("sets.contains([1, 2], [1])", True),
    ("jsonpatch.escapeKey('a/b~c')", "a~1b~0c"),
    ("self.?none.orValue(3)", 3),
    ("'a' + '.indexOf('", "a.indexOf("),
]


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_functions_of_the_libraries(text: str, answer: Any) -> None:
    assert compile_expression(text, ("self",)).evaluate({"self": VALUE}) == answer


WRONG = [
    ("ip('::ffff:1.2.3.4')", "parse error"),
    ("semver('1.0')", "not a semantic version"),
    ("quantity('x')", "quantit"),
    ("self.nope", "no such key: nope"),
    ("self.m.transformMapEntry(k, v, {'x': k})", "key 'x' already exists"),
    ("lists.range(2000).transformMap(i, v, v)", "1000 entries at most"),
    ("[].max()", "min/max called on empty list"),
    ("lists.range(100000000).size() > 0", "goes to 10000 at most"),
    ("self.l.all(a, self.l.all(b, lists.range(2000).all(c, true)))", "budget exceeded"),
]


@pytest.mark.parametrize(("text", "cause"), WRONG)
def test_an_evaluation_that_fails_says_why(text: str, cause: str) -> None:
    with pytest.raises(CelError, match=cause):
        compile_expression(text, ("self",)).evaluate({"self": VALUE})


def test_an_expression_that_cannot_be_compiled_says_where() -> None:
    with pytest.raises(CelError, match=r"1:9: undeclared reference to 'other'"):
        compile_expression("self == other", ("self",))


_TOKENS = [
    "self", ".l", ".m", "[0]", "[?0]", ".?a", "(", ")", "{", "}", "[", "]", "+", "==", "&&", "? :",
    "'", '"', "'a'", "1", "-1.5", "\\", "\n", "r'", "b'", ".all(x, ", ".transformMap(k, v, ", ", ",
    ".validate(", "format.named(", "Object", "JSONPatch{op:", "Object.spec{a:", ".indexOf(",
    "\x00", "é",
    "lists.range(", ".matches('(')", "has(", "cel.bind(x, 1, ", "type(", "null",
    "in",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_TOKENS), max_size=12).map("".join) | st.text(max_size=30))
def test_whatever_is_written_is_an_expression_or_an_error(text: str) -> None:
    try:
        expression = compile_expression(text, ("self",))
        expression.estimate({"self": measured(VALUE)})
        expression.evaluate({"self": VALUE})
    except CelError:
        pass
