"""`calculator`: arithmetic from a syntax tree, never by eval; every step is bounded."""

from __future__ import annotations

import ast
import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from deerflow.errors import ToolError
from deerflow.tools.schema import Runtime, make_tool

MAX_EXPRESSION = 1000
"""Characters of an expression."""
MAX_BITS = 100_000
"""Bits of an integer on the way to the result (milliseconds at most)."""
MAX_DIGITS = 4000
"""Digits of an integer result; below Python's own bound of 4,300 for int to text."""
MAX_DEPTH = 60

Value = int | float
Numbers = list[Any]

_CONSTANTS: dict[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau, "inf": math.inf}
_SIGNS = str.maketrans("×·÷−–，（）", "**/--,()")
_CURE = "Write arithmetic such as 2*(3+4)**0.5, sqrt(2), factorial(20), sum([1, 2, 3])."


class CalculatorArgs(BaseModel):
    """Arguments of calculator."""

    expression: str


def calculator_tools() -> list[BaseTool]:
    """The tool."""
    return [
        make_tool(
            "calculator",
            "Evaluate arithmetic: + - * / // % **, sqrt, log, sin, factorial, comb, sum, …",
            CalculatorArgs,
            calculator,
            {"idempotent": True},
        )
    ]


async def calculator(expression: str, runtime: Runtime) -> str:
    """Value of an expression."""
    del runtime
    return evaluate(expression)


def evaluate(expression: str) -> str:
    """Value of an arithmetic expression as text.

    Args:
        expression: Python's operators; `^` is a power.

    Raises:
        ToolError: no arithmetic, undefined, or too large; says what to write.
    """
    if len(expression) > MAX_EXPRESSION:
        raise ToolError(
            f"The expression has more than {MAX_EXPRESSION:,} characters.", cure="Use python."
        )
    source = expression.translate(_SIGNS).replace("^", "**").strip().rstrip("=").strip()
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ToolError(f"{expression!r} is not arithmetic.", cure=_CURE) from None
    try:
        value = _value(tree.body, 0)
    except ZeroDivisionError:
        raise ToolError("Division by zero.", cure="Check the divisor.") from None
    except OverflowError:
        raise ToolError("The result is too large.", cure="Use log, or python.") from None
    except (TypeError, ValueError) as error:
        raise ToolError(f"Not defined: {error}.", cure=_CURE) from None
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        raise ToolError("A list is no number.", cure="Write numbers without thousands separators.")
    if isinstance(value, complex):
        raise ToolError("The result is not a real number.", cure="Use python (cmath).")
    if isinstance(value, float):
        return f"{value:.15g}"
    if value.bit_length() > MAX_DIGITS * math.log2(10):
        raise ToolError(f"The result has more than {MAX_DIGITS:,} digits.", cure="Use log10 of it.")
    return str(value)


def _value(node: ast.expr, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ToolError("The expression is nested too deeply.", cure="Compute its parts first.")
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            value = _number(_value(operand, depth + 1))
            return -value if isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first = _number(_value(left, depth + 1))
            second = _number(_value(right, depth + 1))
            return _bounded(_OPERATORS[type(op)](first, second))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_number(_value(item, depth + 1)) for item in items]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*[_value(arg, depth + 1) for arg in args]))
        case _:
            pass
    raise ToolError(f"{ast.unparse(node)[:80]!r} is not known here.", cure=_CURE)


def _number(value: Any) -> Value:
    if isinstance(value, int | float):
        return value
    raise ToolError("A list is no number.", cure="Write numbers without thousands separators.")


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise OverflowError
    return value


def _power(base: Value, exponent: Value) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        if base.bit_length() * exponent > 2 * MAX_BITS and abs(base) > 1:
            raise OverflowError
        return base**exponent
    if base < 0 and isinstance(exponent, float) and not exponent.is_integer():
        return cmath.exp(exponent * cmath.log(base))
    return base**exponent


def _modular(base: Value, exponent: Value, modulus: Value | None = None) -> Any:
    if modulus is None:
        return _power(base, exponent)
    return pow(_whole(base), _whole(exponent), _whole(modulus))


def _whole(value: Value) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("a whole number is needed")
    return int(value)


def _small(function: Callable[..., int], largest: int) -> Callable[..., int]:
    """A function of whole numbers whose cost grows with them."""

    def call(*values: Value) -> int:
        whole = [_whole(value) for value in values]
        if any(value > largest for value in whole):
            raise OverflowError
        return function(*whole)

    return call


def _fold(function: Callable[[Numbers], Any]) -> Callable[..., Any]:
    """A function of several numbers or of one list."""

    def call(*values: Any) -> Any:
        flat: Numbers = []
        for value in values:
            flat += value if isinstance(value, list) else [value]
        if not flat:
            raise ValueError("no number was given")
        return function(flat)

    return call


def _mean(values: Numbers) -> float:
    return math.fsum(values) / len(values)


def _median(values: Numbers) -> Any:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else _mean(ordered[middle - 1 : middle + 1])


def _round(value: Value, digits: Value = 0) -> Value:
    places = max(-400, min(400, _whole(digits)))
    return round(value, places) if places else round(value)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "round": _round,
    "pow": _modular,
    "sum": _fold(sum),
    "prod": _fold(math.prod),
    "min": _fold(min),
    "max": _fold(max),
    "mean": _fold(_mean),
    "median": _fold(_median),
    "factorial": _small(math.factorial, 5000),
    "comb": _small(math.comb, 10_000),
    "perm": _small(math.perm, 5000),
    "gcd": _fold(lambda values: math.gcd(*map(_whole, values))),
    "lcm": _fold(lambda values: math.lcm(*map(_whole, values))),
    "sqrt": math.sqrt,
    "log": math.log,
    "ln": math.log,
    "exp": math.exp,
    "hypot": math.hypot,
} | {
    name: getattr(math, name)
    for name in (
        "cbrt floor ceil trunc log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh "
        "degrees radians isqrt"
    ).split()
}
