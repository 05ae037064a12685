"""CEL: the expressions of x-kubernetes-validations, and patterns in the same RE2.

Google's own runtime (cel-expr-python, docs/adr/0011-custom-resources.md) is loaded when the first
schema that needs it is used. It bounds an evaluation by itself: 10,000 steps of the loops of all
macros together, 32 levels of nesting; its regular expressions take linear time.
"""

import json
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from shepherd.api.custom.cellibrary import FUNCTIONS

if TYPE_CHECKING:
    from cel_expr_python import cel

MAX_LENGTH = 16 * 1024
"""Of an expression in bytes."""
_STATUS = re.compile(r"[A-Z_]+: (?P<text>.*?)(?: \[[A-Z_]+\])?", re.DOTALL)
_MISSING = re.compile(r'Key not found in map : "?(?P<key>.*?)"?')
_OLD = re.compile(r"\boldSelf\b")
_TEXT = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")


class CelError(ValueError):
    """An expression that cannot be compiled or evaluated; the message says why."""


@cache
def _environment() -> "cel.Env":
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_encoders, ext_optional, ext_strings

    types = {name: getattr(cel.Type, name.upper()) for name in ("bool", "dyn", "int", "string")}
    types |= {"list": cel.Type.LIST, "map": cel.Type.MAP}
    declared = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"{name}_{at}",
                    types[function.answers],
                    [types[of] for of in function.takes],
                    function.member,
                    function.call,
                )
                for at, function in enumerate(overloads)
            ],
        )
        for name, overloads in FUNCTIONS.items()
    ]
    return cel.NewEnv(
        variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN},
        extensions=[
            ext_strings.ExtStrings(),
            ext_optional.ExtOptional(),
            ext_encoders.ExtEncoders(),
        ],
        functions=declared,
    )


class Expression:
    """A compiled expression over `self` and `oldSelf`."""

    def __init__(self, compiled: "cel.Expression", *, uses_old: bool) -> None:
        self._compiled = compiled
        self.uses_old = uses_old

    @property
    def returns(self) -> str:
        """The name of its static type: BOOL, STRING, DYN..."""
        return str(self._compiled.return_type().name())

    def evaluate(self, value: Any, old: Any = None) -> Any:
        """Its value. Raises CelError."""
        try:
            result = self._compiled.eval(data={"self": value, "oldSelf": old})
        except (RuntimeError, ValueError, TypeError) as error:
            raise CelError(_plain(str(error))) from None
        if result.type().name() == "ERROR":
            raise CelError(_plain(str(result.value())))
        return result.plain_value()


@lru_cache(maxsize=4096)
def compile_rule(text: str, *, optional_old: bool = False) -> Expression:
    """Compile and type-check. Raises CelError.

    With `optional_old` the expression sees `oldSelf` as an optional value. The library has no way
    to pass one, so it is given a list of none or one (whose `optional` its first item is).
    """
    uses_old = bool(_OLD.search(_TEXT.sub("''", text)))
    if optional_old:
        text = _outside_texts(text, lambda part: _OLD.sub("oldSelf[?0]", part))
    if len(text.encode()) > MAX_LENGTH:
        raise CelError(f"an expression may not be longer than {MAX_LENGTH} bytes")
    try:
        compiled = _environment().compile(text)
    except RuntimeError as error:
        raise CelError(f"compilation failed: {_plain(str(error))}") from None
    return Expression(compiled, uses_old=uses_old)


def _outside_texts(text: str, change: Callable[[str], str]) -> str:
    """`text` with what is outside of its string literals changed."""
    parts = []
    at = 0
    for literal in _TEXT.finditer(text):
        parts += [change(text[at : literal.start()]), literal.group()]
        at = literal.end()
    return "".join([*parts, change(text[at:])])


def _plain(text: str) -> str:
    """The library's message without its status codes, in upstream's words where they differ."""
    match = _STATUS.fullmatch(text)
    text = match["text"] if match else text
    missing = _MISSING.fullmatch(text)
    return f"no such key: {missing['key']}" if missing else text


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches an RE2 pattern somewhere. Raises CelError for a pattern that is none.

    It never takes more than linear time, whatever the pattern.
    """
    compiled = compile_rule(f"self.matches({json.dumps(pattern, ensure_ascii=False)})")
    compiled.evaluate("")

    def matches(text: str) -> bool:
        return bool(compiled.evaluate(text))

    return matches
