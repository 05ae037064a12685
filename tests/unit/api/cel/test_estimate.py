"""What expressions cost and what does not fit, by the schema of what they are about.

The costs are those that kubernetes/apiextensions-apiserver's own tests expect.
"""

from typing import Any

import pytest

from shepherd.api.cel.budget import Budget, BudgetError
from shepherd.api.cel.expressions import CelError, compile_expression, compile_rule
from shepherd.api.cel.shapes import DYN, shape_of
from shepherd.api.resource import Object

TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
FLAG = {"type": "boolean"}


def listing(items: Object, **more: Any) -> Object:
    return {"type": "array", "items": items} | more


def mapping(values: Object) -> Object:
    return {"type": "object", "additionalProperties": values}


def obj(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


COSTS: list[tuple[Object, str, float]] = [
    (listing(NUMBER), "self.all(x, true)", 4718591),
    (listing(TEXT), "self.all(x, true)", 3145727),
    (listing(FLAG), "self.all(x, true)", 1887437),
    (listing(listing(NUMBER)), "self.all(x, true)", 3145727),
    (mapping(NUMBER), "self.all(x, true)", 1348169),
    (mapping(TEXT), "self.all(x, true)", 1179647),
    (mapping(TEXT), "self.all(x, x.contains(self[x]))", 2752507),
    (TEXT, "self.contains('test')", 314574),
    (TEXT, "self.startsWith('test')", 2),
    (TEXT, 'self.matches("x")', 314574),
    (TEXT | {"maxLength": 50}, 'self.matches("x")', 22),
    (TEXT, 'size(self + "hello") > size("hello")', 314578),
    (TEXT, 'self == "x"', 2),
    (listing(NUMBER), "self[1] == 0.0", 2),
    (listing(TEXT), "self[1] == self[1]", 314577),
    (listing(NUMBER), "self.all(x, x == 0.0)", 6291454),
    (listing({"x-kubernetes-int-or-string": True}), "self.all(x, true)", 4718591),
    (listing(NUMBER, maxItems=10), "self.all(x, self.all(y, self.all(z, true)))", 3552),
]


@pytest.mark.parametrize(("schema", "rule", "cost"), COSTS)
def test_costs_are_upstreams(schema: Object, rule: str, cost: float) -> None:
    assert compile_rule(rule).estimate(shape_of(schema) or DYN).cost == cost


SPEC = obj(
    count=WHOLE,
    ratio=NUMBER,
    name=TEXT,
    on=FLAG,
    any={"x-kubernetes-int-or-string": True},
    labels=mapping(TEXT),
    items=listing(obj(port=WHOLE)),
    when={"type": "string", "format": "date-time"},
    open={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
) | {"nullable": True}
FITTING = [
    "self.count > 1 && self.ratio > 1",
    "self.name.startsWith('a') || self.on",
    "self.any == 1 || self.any == '1'",
    "self.labels['x'] == 'y' && self.labels.x == 'y'",
    "self.items.all(i, i.port > 0) && self.items.exists(n, i, n == 0 && i.port == 80)",
    "self.when < timestamp('2021-01-01T00:00:00Z')",
    "self.items.map(i, i.port).sum() > 3",
    "self.items.filter(i, i.port > 3).size() == 1",
    "cel.bind(ports, self.items.map(i, i.port), ports.max() < 5)",
    "(self.on ? self.name : 'x').size() > 1",
    "self.?name.orValue('') == ''",
    "self.items.map(i, i.port) == [1, 2]",
    "has(self.name) && size(self.name) > 0",
]
UNFIT = [
    ("self.foo == 1", "1:5: undefined field 'foo'\n | self.foo == 1\n | ....^"),
    ("has(self.foo)", "undefined field 'foo'"),
    ("self.?foo.hasValue()", "undefined field 'foo'"),
    ("self.items.all(i, i.prt > 0)", "undefined field 'prt'"),
    ("self.items.exists(n, i, i.prt > 0)", "undefined field 'prt'"),
    ("self.open.a == 1", "undefined field 'a'"),
    ("self.count.x == 1", "type 'int' does not support field selection"),
    ("self.count == 'a'", "no matching overload for '_==_' applied to '(int, string)'"),
    ("self.ratio == 1", "no matching overload for '_==_' applied to '(double, int)'"),
    ("self.count < 'a'", "no matching overload for '_<_' applied to '(int, string)'"),
    ("self.count.startsWith('a')", "'startsWith' applied to '(int, string)'"),
    ("self.labels == ['a']", "applied to '(map(string, string), list(string))'"),
    ("self.name && true", "no matching overload for '_&&_' applied to '(string, bool)'"),
    ("self.name + self.count == 'a'", "no matching overload for '_+_'"),
    ("\n  self.name == 'a' &&\n    self.foo", "3:9: undefined field 'foo'\n |     self.foo\n"),
]


@pytest.mark.parametrize("rule", FITTING)
def test_what_fits_the_schema(rule: str) -> None:
    assert compile_rule(rule).estimate(shape_of(SPEC) or DYN).shape.kind == "bool"


@pytest.mark.parametrize(("rule", "cause"), UNFIT)
def test_what_does_not_fit_is_told_where(rule: str, cause: str) -> None:
    with pytest.raises(CelError) as caught:
        compile_rule(rule).estimate(shape_of(SPEC) or DYN)
    assert cause in str(caught.value)


def test_an_evaluation_is_charged_by_what_is_there() -> None:
    """Loops over a large object cost what they can do to it, and are not even begun."""
    texts = {"l": [{"t": "a" * 2000} for _ in range(100)]}
    inner = "self.l.all(b, b.t.matches('a*b') || a.t.contains(b.t))"
    costly = compile_expression(f"self.l.all(a, {inner})", ("self",))
    with pytest.raises(BudgetError, match="running out of cost budget"):
        Budget(texts).charge(costly, {"self": texts})
    cheap = compile_expression("self.l.all(a, size(a.t) > 0)", ("self",))
    Budget(texts).charge(cheap, {"self": texts})


def test_a_budget_is_for_all_expressions_together() -> None:
    budget = Budget({})
    expression = compile_expression("self == 1", ("self",))
    for _ in range(10_000):
        budget.charge(expression, {"self": 1})
    with pytest.raises(BudgetError):
        budget.charge(expression, {"self": 1})


ODD = [
    "self",
    "{'a': [1, 2]}.a[0] == 1",
    "b'a' == b'a'",
    "type(self) == int",
    "dyn(self).x.y[3].z",
    "null == null",
    "lists.range(3).map(i, [i]).flatten()",
    "optional.of(self).hasValue()",
    "'%s'.format([self]) == ''",
    "1u < 2u",
]


def test_estimating_never_fails_otherwise() -> None:
    """Whatever compiles can be estimated, with and without a schema."""
    for rule in (*FITTING, *ODD):
        compile_rule(rule).estimate(DYN)
        compile_rule(rule).estimate(shape_of(SPEC) or DYN)
