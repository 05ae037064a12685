"""Names of properties as expressions write them.

Source: "Escaping" in the documentation of validation rules; apiserver pkg/cel/escaping.go.
"""

_KEYWORDS = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
        "function", "if", "import", "let", "loop", "package", "namespace", "return", "var",
        "void", "while",
    }
)  # fmt: skip
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def escaped(name: str) -> str:
    """`foo-bar` is `foo__dash__bar`."""
    if name in _KEYWORDS:
        return f"__{name}__"
    for text, written in _ESCAPES:
        name = name.replace(text, written)
    return name


def plain(name: str) -> str:
    """The reverse."""
    for text, written in reversed(_ESCAPES):
        name = name.replace(written, text)
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    return name
