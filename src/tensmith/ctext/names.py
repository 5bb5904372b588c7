"""C identifiers, literals and subscripts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from tensmith.ctext.dialect import C, Dialect
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Number
from tensmith.formula.poly import FloorDiv, Poly

# What C gives a meaning whatever a text says: keywords, entry points, and what compilers define unasked.
_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline int "
    "long register restrict return short signed sizeof static struct switch typedef union unsigned void "
    "volatile while _Bool bool true false NULL main status asm typeof unix linux i386 "
)
# What <math.h> declares, without the f and l at the end, and <stdlib.h> and <string.h>, BSD's and GNU's too.
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp2 expm1 fabs "
    "fdim finite floor fma fmax fmin fmod frexp gamma hypot ilogb isinf isnan j0 j1 jn ldexp lgamma "
    "lgamma_r llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter "
    "nexttoward pow remainder remquo rint round scalb scalbln scalbn signgam significand sin sinh sqrt "
    "tan tanh tgamma trunc y0 y1 yn "
)
_LIBRARY = (
    "a64l abort abs aligned_alloc alloca arc4random arc4random_buf arc4random_uniform at_quick_exit "
    "atexit atof atoi atol atoll bcmp bcopy bsearch bzero calloc clearenv clock div ecvt errno exit "
    "explicit_bzero fcvt ffs ffsl ffsll free gcvt getenv getloadavg getsubopt index initstate l64a labs "
    "lcong48 ldiv llabs lldiv malloc mblen mbstowcs mbtowc memccpy memchr memcmp memcpy memmove memset "
    "mkdtemp mkstemp mkstemps mktemp on_exit posix_memalign pselect putenv qecvt qfcvt qgcvt qsort "
    "quick_exit rand random realloc reallocarray realpath rindex rpmatch seed48 select setenv setstate "
    "srand srandom stpcpy stpncpy strcasecmp strcat strchr strcmp strcoll strcpy strcspn strdup strerror "
    "strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strrchr strsep strsignal strspn "
    "strstr strtod strtof strtok strtol strtold strtoll strtoq strtoul strtoull strtouq strxfrm system "
    "time unsetenv valloc wcstombs wctomb fd_mask u_char u_int u_long u_short uint ulong ushort "
)
# Macros of the headers that emitted files include, types by their ending, and families of functions.
_FAMILIES = re.compile(
    r"(u_?)?int\w*\d*_t|(blkcnt|blksize|clock|clockid|daddr|dev|double|div|float|fsblkcnt|fsfilcnt|fsid|gid|id|ino)_t"
    r"|(key|ldiv|lldiv|locale|loff|max_align|mode|nlink|off|pid|ptrdiff|quad|register|size|sigset|ssize)_t"
    r"|(suseconds|time|timer|uid|u_quad|wchar|caddr|pthread(_\w+)?)_t|[a-z]+rand48"
    r"|(str\w+|[a-z]*rand48|s?random|rand|initstate|setstate|[a-z]*cvt|seed48|lcong48|lgamma[fl]?)_[rl]"
    r"|U?INT\w*_(C|MAX|MIN)|M_(E|LOG2E|LOG10E|LN2|LN10|PI|PI_2|PI_4|1_PI|2_PI|2_SQRTPI|SQRT2|SQRT1_2)"
    r"|FP_\w+|HUGE_\w+|INFINITY|NAN|MATH_\w+|FD_\w+"
    r"|(PTRDIFF|SIZE|SIG_ATOMIC|WCHAR|WINT|RAND|MB_CUR)_M(AX|IN)|W(CONT|EXIT|IF|NO|STOP|TERM|UN)[A-Z]+|EXIT_\w+"
    r"|NFDBITS|(BIG|LITTLE|PDP)_ENDIAN|BYTE_ORDER|[bl]e\d\dtoh|hto[bl]e\d\d|math_errhandling|fpclassify"
    r"|is(finite|greater|greaterequal|less|lessequal|lessgreater|normal|unordered)|signbit|offsetof"
)
_FLOATS = frozenset(_MATH.split())
_WORDS = _FLOATS | frozenset((_KEYWORDS + _LIBRARY).split())
_MARK = "_q0q"
_ASIDE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|^\s*#\s*include[^\n]*|^\s*#\s*\w+", re.DOTALL | re.MULTILINE
)

Made = TypeVar("Made")


def reserved(name: str) -> bool:
    """Whether a name has a meaning in C, or in a header that emitted files include."""
    known = name in _WORDS or (name[-1:] in ("f", "l") and name[:-1] in _FLOATS)
    return known or _FAMILIES.fullmatch(name) is not None


class Names:
    """Hands out C identifiers, each once. marked: as no text has them by itself, see `unmixed`."""

    def __init__(self, taken: Iterable[str] = (), marked: bool = False) -> None:
        self._taken, self._mark = set(taken), _MARK if marked else ""

    def fresh(self, base: str) -> str:
        """An identifier like `base` that nothing else has."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", base.split("%")[0]) or "v"
        base = f"v{base}" if base[0].isdigit() else base
        stem = base.lstrip("_") or "v"
        stem = f"v_{stem}" if reserved(f"{stem}_2") else stem  # a number makes no ordinary name of it
        name, count = base, 1
        while f"{name}{self._mark}" in self._taken or name.startswith("__") or reserved(name):
            count += 1
            name = f"{stem}_{count}"
        name += self._mark
        self._taken.add(name)
        return name


def unmixed(make: Callable[[Names], Made], text: Callable[[Made], str]) -> Made:
    """What `make` makes of names that its text does not use for itself: helpers, fixed locals, macros."""
    words = set(re.findall(r"\w+", _ASIDE.sub(" ", text(make(Names(marked=True))))))
    return make(Names(word for word in words if not word.endswith(_MARK)))


def literal(value: Number, dtype: str, dialect: Dialect = C) -> str:
    """A number of a type as C writes it, exactly."""
    if dtype == "bool":
        return ("true" if value else "false") if dialect.types["bool"] == "bool" else str(int(value))
    if dtype[0] == "f":
        return _float_literal(float(value), dtype)
    whole = int(value)
    if dtype[0] == "u":
        whole %= 1 << int(dtype[1:])
    elif dtype in dialect.least and whole == -(1 << int(dtype[1:]) - 1):
        return dialect.least[dtype]  # which has no literal
    text = dialect.literals.get(dtype, "{}").format(abs(whole))
    return f"(-{text})" if whole < 0 else text


def _float_literal(value: float, dtype: str) -> str:
    value = float(np.float32(value)) if dtype == "f32" else value
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = str(np.float32(value)) if dtype == "f32" else repr(value)
    text = text if any(mark in text for mark in ".en") else f"{text}.0"
    suffixed = f"{text}f" if dtype == "f32" else text
    return f"({suffixed})" if text.startswith("-") else suffixed


# The C expression of floor(top / bottom), given those of both.
Divide = Callable[[FloorDiv, str, str], str]


def poly_text(poly: Poly, name: Callable[[str], str], divide: Divide) -> str:
    """A polynomial in arithmetic of integers; `name` gives the C expression of a symbol."""
    text = ""
    for monomial, coefficient in reversed(poly.terms):
        factors: list[str] = []
        for atom, power in monomial:
            factor = _division(atom, name, divide) if isinstance(atom, FloorDiv) else name(atom)
            factors += [factor] * power
        magnitude = abs(coefficient)
        if magnitude != 1 or not factors:
            factors.insert(0, str(magnitude))
        product = " * ".join(factors)
        if not text:
            text = f"-{product}" if coefficient < 0 else product
        else:
            text += f" {'-' if coefficient < 0 else '+'} {product}"
    return text or "0"


def _division(atom: FloorDiv, name: Callable[[str], str], divide: Divide) -> str:
    return divide(atom, poly_text(atom.top, name, divide), poly_text(atom.bottom, name, divide))


def floor_text(ranges: Ranges, floor: Callable[[], str]) -> Divide:
    """C's division where that is the floor, since nothing is negative in these ranges; else a call of the
    function that `floor` names."""

    def divide(division: FloorDiv, top: str, bottom: str) -> str:
        if ranges.never_negative(division.top):
            return f"(({top}) / ({bottom}))"
        return f"{floor()}({top}, {bottom})"

    return divide


def is_atom(text: str) -> bool:
    """Whether a C expression binds tighter than any operator."""
    return re.fullmatch(r"[\w.]+(\[[^\[\]]*\])?|\w+\([^()]*\)", text) is not None


def enclosed(text: str) -> str:
    """A C expression that may stand next to any operator."""
    return text if is_atom(text) or (text[0] == "(" and _closes_at_end(text)) else f"({text})"


def _closes_at_end(text: str) -> bool:
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return position == len(text) - 1
    return False
