"""Compiling and evaluating expressions, and patterns in the same RE2.

Google's own runtime (cel-expr-python, docs/adr/0011-custom-resources.md) is loaded when the first
schema that needs it is used. It bounds an evaluation by itself: 10,000 steps of the loops of all
macros together, 32 levels of nesting; its regular expressions take linear time.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from shepherd.api.cel.estimate import GROWING, CheckError, Estimator, Found, Reckoner
from shepherd.api.cel.library import FUNCTIONS
from shepherd.api.cel.objects import as_maps
from shepherd.api.cel.shapes import Shape
from shepherd.api.cel.syntax import Call, Constant, List, Loop, Map, Tree, parts, read_tree
from shepherd.api.cel.texts import blanked, closings, outside

if TYPE_CHECKING:
    from cel_expr_python import cel

    from shepherd.api.cel.budget import Budget

MAX_LENGTH = 16 * 1024
"""Of an expression in bytes."""
_CLASS = r"\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*(?:\]|\Z)"
_GROUP = re.compile(rf"(\\.|{_CLASS}|\((?=\?(?!P?<)))|\((?:\?P?<\w+>)?")
"""What in a pattern is no group that captures, or one."""
_STATUS = re.compile(r"[A-Z_]+: (?P<text>.*?)(?: \[[A-Z_]+\])?", re.DOTALL)
_MISSING = re.compile(r'Key not found in map : "?(?P<key>.*?)"?')
_OLD = re.compile(r"\boldSelf\b")
_RENAMED = re.compile(r"\.\s*(indexOf|lastIndexOf)\b|\blists\s*\.\s*(range)\b")
"""Of strings and of lists, which the library cannot tell apart: ours take both. And what it would
do at any length."""
_TWICE = re.compile(r"\b(optMap|optFlatMap)\b")
"""Macros that write what they are called on twice."""
_LONGEST_WRITTEN = 1024 * 1024
_MAKES_MAPS = re.compile(r"\.\s*transformMap(Entry)?\s*\(")
_INSERT, _OWN_INSERT = b"cel.@mapInsert", b"any_map_insert"
_OPTIONAL = re.compile(r"\.\s*validate\s*\(|\bformat\.named\s*\(")


class CelError(ValueError):
    """An expression that cannot be compiled or evaluated; the message says why."""


# What the library brings itself, as upstream has it in every environment.
_EXTENSIONS = (
    "bindings", "encoders", "lists", "math", "optional", "regex", "sets", "strings",
    "two-var-comprehensions",
)  # fmt: skip
_RULE = ("self", "oldSelf")


@cache
def _environment(variables: tuple[str, ...]) -> "cel.Env":
    from cel_expr_python import cel

    types = {name: getattr(cel.Type, name.upper()) for name in ("bool", "dyn", "int", "string")}
    types |= {"double": cel.Type.DOUBLE, "list": cel.Type.LIST, "map": cel.Type.MAP}
    types |= {"strings": cel.Type.List(cel.Type.STRING), "ints": cel.Type.List(cel.Type.INT)}
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
    listed = "".join(f"  - name: {name}\n" for name in _EXTENSIONS)
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(f"extensions:\n{listed}"),
        variables=dict.fromkeys(variables, cel.Type.DYN),
        functions=declared,
    )


class Expression:
    """A compiled expression over some variables, all of them of any type."""

    def __init__(self, compiled: "cel.Expression", text: str) -> None:
        self._compiled = compiled
        self._text = text

    @cached_property
    def _tree(self) -> Tree:
        return read_tree(self._compiled.serialize())

    @cached_property
    def loops(self) -> bool:
        """It may look at the same thing more than once."""
        return any(
            isinstance(one, Loop) or (isinstance(one, Call) and one.function.startswith("sets."))
            for one in parts(self._tree.root)
        )

    @cached_property
    def grows(self) -> bool:
        """It may make what is larger than what it is about."""
        return any(
            (isinstance(one, Call) and one.function in GROWING)
            or (isinstance(one, List | Map) and not _plain_literal(one))
            for one in parts(self._tree.root)
        )

    @property
    def returns(self) -> str:
        """Its static type: BOOL, STRING, LIST, MAP, DYN..."""
        return str(self._compiled.return_type().name()).partition("<")[0]

    def estimate(self, shapes: Mapping[str, Shape]) -> Found:
        """What its value and its cost can be, given what each variable is. Raises CelError."""
        try:
            return Estimator(self._tree, self._text, shapes).estimate()
        except CheckError as error:
            raise CelError(f"compilation failed: {error}") from None

    def reckoned(self, shapes: Mapping[str, Shape]) -> float:
        """What an evaluation about values of these shapes costs at most, in time and memory."""
        return Reckoner(self._tree, self._text, shapes).total()

    def fitted(self, shapes: Mapping[str, Shape]) -> str:
        """Its text, with conversions where `Shape.format` asks for them. Raises CelError."""
        try:
            return Estimator(self._tree, self._text, shapes).fitted()
        except CheckError as error:
            raise CelError(f"compilation failed: {error}") from None

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Its value, given that of each variable. Raises CelError."""
        try:
            result = self._compiled.eval(data=values)
        except (RuntimeError, ValueError, TypeError, MemoryError) as error:
            raise CelError(_plain(str(error))) from None
        if result.type().name() == "ERROR":
            raise CelError(_plain(str(result.value())))
        return result.plain_value()


@lru_cache(maxsize=4096)
def compile_expression(text: str, variables: tuple[str, ...]) -> Expression:
    """Compile and type-check an expression over those variables. Raises CelError."""
    if len(text.encode()) > MAX_LENGTH:
        raise CelError(f"an expression may not be longer than {MAX_LENGTH} bytes")
    text = outside(text, lambda part: _RENAMED.sub(_renamed, part))
    bare = blanked(text)
    if len(text) << len(_TWICE.findall(bare)) > _LONGEST_WRITTEN:
        raise CelError("compilation failed: optMap and optFlatMap are nested too deeply")
    text = as_maps(_taking_first(text))
    environment = _environment(variables)
    try:
        if _MAKES_MAPS.search(blanked(text)):
            return Expression(_with_own_insert(environment, text), text)
        return Expression(environment.compile(text), text)
    except RuntimeError as error:
        raise CelError(f"compilation failed: {_plain(str(error))}") from None


def _with_own_insert(environment: "cel.Env", text: str) -> "cel.Expression":
    """An expression that inserts into maps, which the library can write out and cannot run: there,
    another name of the same length takes the place of that function's.

    Types are not checked then. Raises RuntimeError.
    """
    written = environment.compile(text, disable_check=True).serialize()
    return environment.deserialize(written.replace(_INSERT, _OWN_INSERT))


def _plain_literal(node: List | Map) -> bool:
    """Whether it holds constants only, and any."""
    return len([*parts(node)]) > 1 and all(
        isinstance(part, Constant | List | Map) for part in parts(node)
    )


class Rule:
    """A compiled expression over `self` and `oldSelf`."""

    def __init__(self, expression: Expression, *, uses_old: bool, optional_old: bool) -> None:
        self._expression = expression
        self._optional_old = optional_old
        self.uses_old = uses_old

    def fitted(self, shape: Shape) -> "Rule":
        """The same for a `self` some of whose texts are to be seen as times, durations, bytes.

        Raises CelError.
        """
        text = self._expression.fitted(self._shapes(shape))
        fitted = compile_expression(text, _RULE)
        return Rule(fitted, uses_old=self.uses_old, optional_old=self._optional_old)

    def estimate(self, shape: Shape) -> Found:
        """What its value and its cost can be, given what `self` is. Raises CelError."""
        return self._expression.estimate(self._shapes(shape))

    def _shapes(self, shape: Shape) -> dict[str, Shape]:
        old = Shape("list", 1, item=shape) if self._optional_old else shape
        return {"self": shape, "oldSelf": old}

    def evaluate(self, value: Any, old: Any = None, budget: "Budget | None" = None) -> Any:
        """Its value. Raises CelError."""
        values = {"self": value, "oldSelf": old}
        if budget:
            budget.charge(self._expression, values)
        return self._expression.evaluate(values)


@lru_cache(maxsize=4096)
def compile_rule(text: str, *, optional_old: bool = False) -> Rule:
    """Compile and type-check. Raises CelError.

    With `optional_old` the expression sees `oldSelf` as an optional value. The library has no way
    to pass one, so it is given a list of none or one (whose `optional` its first item is).
    """
    uses_old = bool(_OLD.search(blanked(text)))
    if optional_old:
        text = outside(text, lambda part: _OLD.sub("oldSelf[?0]", part))
    return Rule(compile_expression(text, _RULE), uses_old=uses_old, optional_old=optional_old)


def _renamed(match: re.Match[str]) -> str:
    return f".any_{match[1]}" if match[1] else f"any_{match[2]}"


def _taking_first(text: str) -> str:
    """`text` in which the functions that answer optional values do so.

    Ours answer a list of none or one, whose `optional` its first item is.
    """
    bare = blanked(text)
    ends = closings(bare)
    changes: list[tuple[int, int, str]] = []
    for match in _OPTIONAL.finditer(bare):
        end = ends.get(match.end() - 1, len(text))
        called = match.group().replace("validate", "any_validate")
        changes += [(*match.span(), called), (end, end, "[?0]")]
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _plain(text: str) -> str:
    """The library's message without its status codes, in upstream's words where they differ."""
    match = _STATUS.fullmatch(text)
    text = match["text"] if match else text
    missing = _MISSING.fullmatch(text)
    return f"no such key: {missing['key']}" if missing else text


def find(text: str, pattern: str) -> str:
    """What a pattern matches first. Raises ValueError for a pattern that is none."""
    found: str = _extract("regex.extract(text, pattern).orValue('')", text, pattern)
    return found


def find_all(text: str, pattern: str) -> list[str]:
    """All that a pattern matches in a text. Raises ValueError for a pattern that is none."""
    found: list[str] = _extract("regex.extractAll(text, pattern)", text, pattern)
    return found


def _extract(how: str, text: str, pattern: str) -> Any:
    # The library's own functions answer what a group of the pattern matches, if it has one.
    whole = _GROUP.sub(lambda found: found[1] or "(?:", pattern)
    compiled = compile_expression(how, ("text", "pattern"))
    return compiled.evaluate({"text": text, "pattern": whole})


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
