"""Expressions that would take all time or memory are refused before they are evaluated."""

import pytest

from shepherd.api.cel.budget import Budget
from shepherd.api.cel.expressions import CelError, compile_expression
from shepherd.api.resource import Object

VALUES: Object = {"object": {"a": "xxxxxxxxxxxxxxxx", "empty": "", "some": ["x"]}}


def doubled(seed: str, step: str, times: int) -> str:
    """`step` about itself, again and again: `X` is what was made before."""
    body = f"size(v{times}) > 0"
    for at in range(times, 0, -1):
        body = f"cel.bind(v{at}, {step.replace('X', f'v{at - 1}')}, {body})"
    return f"cel.bind(v0, {seed}, {body})"


BOMBS = {
    "texts": doubled("object.a", "X + X", 28),
    "lists": doubled("object.some", "X + X", 28),
    "replace": doubled("object.a", "X.replace('x', X)", 10),
    "patterns": doubled("object.a", "regex.replace(X, '', X)", 8),
    "join": doubled("object.some", "[X.join('x'), X.join('x'), X.join('x'), X.join('x')]", 24),
    "separators": "lists.range(9000).map(x, 'a').join('xxxxxxxxxxxxxxxxxxxxxxxxx') != ''",
    "format": doubled("object.a", "'%s%s%s%s%s%s'.format([X, X, X, X, X, X])", 14),
    "quotes": doubled("'\\\\\"'", "strings.quote(X + X + X + X)", 12),
    "flatten": doubled("object.some", "X.map(q, X + X).flatten()", 8),
    "keys": f"object.all(k, {doubled('k', 'X + X', 26)})",
    "an empty list first": doubled("[[], [object.a]].map(q, q.join(''))[1]", "X + X", 28),
    "an optional": doubled("optional.none().orValue(object.a)", "X + X", 28),
    "equal lists": doubled("object.a", "[X, X]", 26).replace("size(v26) > 0", "v26 == v26"),
    "taken out": doubled("object.a", "[X, X]", 26).replace("size(v26) > 0", "v26"),
    "ranges": "lists.range(5000).map(x, lists.range(10000)).size() > 0",
    "the library's range": "lists//\n.range(100000000).size() > 0",
    "behind a comment": 'true // "\n && lists//\n.range(100000000).size() > 0 // "\n',
    "a cost of nothing": f"[].all(x, lists//\n.range(9) == []) && {doubled('object.a', 'X+X', 25)}",
    "what does not fit": f"(true || (object.a && true)) && {doubled('object.a', 'X + X', 25)}",
    "distinct": "lists.range(9000).map(x, [x]).distinct().size() > 0",
    "sets": "cel.bind(a, lists.range(10000), sets.contains(a, a))",
    "searches": "cel.bind(a, lists.range(9000), a.all(x, !(-1 in a)))",
    "optMap": f"optional.of(1){'.optMap(x, x + 1)' * 25}.hasValue()",
}


@pytest.mark.parametrize("name", BOMBS)
def test_it_is_refused(name: str) -> None:
    with pytest.raises(CelError, match=r"cost budget|nested too deeply"):
        Budget(VALUES).charge(compile_expression(BOMBS[name], ("object",)), VALUES)


@pytest.mark.parametrize(
    "text",
    [
        "object.a.size() + 1 <= 20",
        "object.map(k, k + '=').join(',') != object.a + 'x'",
        "url('http://a/' + object.a).getHost() + 'x' == 'ax'",
        "object.a.split('').all(p, p + 'x' == 'xx')",
        "'%s-%d'.format([object.a, 7]).size() == 18",
        "cel.bind(v, object.some.map(x, x + '!'), v[0] == 'x!' && v == ['x!'])",
        'lists.range(100).map(x, x * 2).sum() == 9900 // a comment with a "',
        "optional.of(object.a).optMap(x, x + 'y').orValue('').endsWith('y')",
    ],
)
def test_honest_expressions_are_evaluated(text: str) -> None:
    expression = compile_expression(text, ("object",))
    Budget(VALUES).charge(expression, VALUES)
    assert expression.evaluate(VALUES) is True


@pytest.mark.parametrize(
    "text", ["self" + ".validate(" * 800 + '\\"' * 4000, '\\"' * 8000 + "\\", "Object{" * 2000]
)
def test_malformed_texts_are_read_once(text: str) -> None:
    """They took minutes, or grew with the square of their length."""
    with pytest.raises(CelError):
        compile_expression(text, ("object",))
