"""The many ways to write a formula, brought to one plain notation."""

from __future__ import annotations

import re
import unicodedata

MOST_TEXT = 20_000
"""Characters of a text that is looked through for formulas."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ", "0123456789+-()n")
_RAISED = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ]+")
_VULGAR = re.compile(r"(?<=[0-9])?[¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]")
_SIGNS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": "*", "⋅": "*", "·": "*", "∙": "*",
        "•": "*", "÷": "/", "⁄": "/", "∕": "/", "→": "->", "⟶": "->", "⇒": " => ", "∴": " so ",
        "，": ",", "、": ",", "；": ";", "。": ". ", "：": ":", "（": "(", "）": ")", "º": "°",
        "˚": "°", "℃": "°C", "℉": "°F", "∶": ":", "Ω": "Ω", "µ": "μ", "⟹": " => ", "’": "'",
        "“": '"', "”": '"', "‘": "'", "⇌": "->", "⇄": "->",
    }
)  # fmt: skip
_COMMANDS = {
    "cdot": "*", "times": "*", "div": "/", "pm": "±", "to": "->", "rightarrow": "->",
    "longrightarrow": "->", "xrightarrow": "->", "pi": " pi ", "circ": "°", "degree": "°",
    "left": "", "right": "", "quad": " ", "qquad": " ", "displaystyle": "", "sin": " sin ",
    "cos": " cos ", "tan": " tan ", "ln": " ln ", "log": " log ", "therefore": " so ",
    "implies": " => ", "Rightarrow": " => ", "neq": "≠", "ne": "≠", "Omega": "Ω", "Delta": "Δ",
    "theta": "θ", "approx": "≈", "lambda": "λ", "alpha": "α", "beta": "β",
}  # fmt: skip
_BRACED = r"\{([^{}]*)\}"
_FRACTION = re.compile(r"\\[dtc]?frac\s*" + _BRACED + r"\s*" + _BRACED)
_ROOT = re.compile(r"\\sqrt\s*" + _BRACED)
_WORDED = re.compile(r"\\(?:text|mathrm|mathbf|ce|mathit|operatorname|textbf)\s*" + _BRACED)
_BRACED_POWER = re.compile(r"\^\s*" + _BRACED)
_BRACED_INDEX = re.compile(r"_\s*" + _BRACED)
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_BOLD = re.compile(r"(?<![\w)*])\*\*(?=\S)(.{1,2000}?)(?<=\S)\*\*(?![\w(*])", re.DOTALL)
_SPOKEN = (
    (re.compile(r"\b(?:is\s+)?equal(?:s|\s+to)\b|等于|＝", re.IGNORECASE), " = "),
    (re.compile(r"\bdivided\s+by\b|除以", re.IGNORECASE), "/"),
    (re.compile(r"\b(?:multiplied\s+by|times)\b|乘以|乘", re.IGNORECASE), "*"),
    (re.compile(r"\bplus\b|加上", re.IGNORECASE), "+"),
    (re.compile(r"\bminus\b|减去", re.IGNORECASE), "-"),
    (re.compile(r"(?<![A-Za-z])negative\s+(?=[0-9])|负(?=[0-9])", re.IGNORECASE), "-"),
    (re.compile(r"\s*\bsquared\b", re.IGNORECASE), "^2"),
    (re.compile(r"\s*\bcubed\b", re.IGNORECASE), "^3"),
    (re.compile(r"\b(?:the\s+)?square\s+root\s+of\b|根号", re.IGNORECASE), " sqrt "),
    (re.compile(r"(?<=[0-9])\s*(?:percent|per\s+cent)\b|(?<=[0-9])\s*％", re.IGNORECASE), "%"),
    (re.compile(r"百分之(?=[0-9])"), "%%"),
    (re.compile(r"(?<=[0-9])\s*(?:degrees?|deg|度)(?![A-Za-z])(?!\s*(?:Celsius|Fahrenheit|[CF]\b))",
                re.IGNORECASE), "°"),
    (re.compile(r"(?<=[0-9])\s*(?:degrees?|deg)\s+(?:Celsius|C\b)|(?<=[0-9])\s*摄氏度",
                re.IGNORECASE), " °C"),
    (re.compile(r"(?<=[0-9])\s*(?:degrees?|deg)\s+(?:Fahrenheit|F\b)|(?<=[0-9])\s*华氏度",
                re.IGNORECASE), " °F"),
    (re.compile(r"(?<![A-Za-z])([a-zA-Z])\s+is\s+(?=[-+±√(0-9])"), r"\1 = "),
    (re.compile(r"(?<![A-Za-z])([a-zA-Z])\s*[为是]\s*(?=[-+±√(0-9])"), r"\1 = "),
)  # fmt: skip


def broken(text: str) -> bool:
    """Whether a text holds characters that no text holds: surrogates, NUL and other controls."""
    return any(
        unicodedata.category(char) in ("Cs", "Cc", "Cn") and char not in "\n\r\t" for char in text
    )


def plain(text: str) -> str:
    """The text with ASCII signs for mathematical ones, LaTeX and emphasis taken away.

    Anything else stays as it is; a plain text stays plain.
    """
    text = blanks(text)
    text = _VULGAR.sub(lambda found: " " + _vulgar(found.group()), text)
    text = _RAISED.sub(lambda found: "^" + _raised(found.group().translate(_SUPERSCRIPTS)), text)
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)
    text = _BOLD.sub(r"\1", text).replace("`", "")
    if "\\" in text or "$" in text or "{" in text:
        text = _without_latex(text)
    return blanks(text.replace("**", "^").replace("√", " sqrt ").replace("π", " pi "))


def spoken(text: str) -> str:
    """A plain text with words for operations replaced by their signs ("x equals 2 times 3")."""
    for pattern, sign in _SPOKEN:
        text = pattern.sub(sign, text)
    return re.sub(r"%%([0-9]+(?:\.[0-9]+)?)", r"\1%", text)


def blanks(text: str) -> str:
    """Runs of blanks as one, a line's end where there is one: patterns need no time for them."""
    return re.sub(r"\s{2,}|[\t\r\f\v]", _one, text)


def _one(found: re.Match[str]) -> str:
    return "\n" if "\n" in found.group() else " "


def _vulgar(char: str) -> str:
    return unicodedata.normalize("NFKC", char).replace("⁄", "/")


def _raised(digits: str) -> str:
    return digits if re.fullmatch(r"[0-9n]+", digits) else f"({digits})"


def _without_latex(text: str) -> str:
    text = re.sub(r"\\[()\[\],;:! ]|\$", " ", text).replace("\\%", "%")
    for _ in range(6):  # innermost braces first; deeper nests stay and are no formula
        before = text
        text = _FRACTION.sub(r"((\1)/(\2))", text)
        text = _ROOT.sub(r" sqrt(\1)", text)
        text = _WORDED.sub(r" \1 ", text)
        text = _BRACED_POWER.sub(_power, text)
        text = _BRACED_INDEX.sub(r"\1", text)
        if text == before:
            break
    text = re.sub(r"\^\s*\\circ\b", "°", text)
    text = _COMMAND.sub(lambda found: _COMMANDS.get(found.group(1), f"\\{found.group(1)}"), text)
    return re.sub(r"_(?=[0-9])", "", text)


def _power(found: re.Match[str]) -> str:
    inner = found.group(1).strip()
    if inner in ("\\circ", "°"):
        return "°"
    return f"^{inner}" if re.fullmatch(r"[0-9]+", inner) else f"^({inner})"
