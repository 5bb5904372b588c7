"""All that libclang can hand over, and what becomes of it: modelled, without effect on values, or refused.

What is not named here is refused, newer libclangs' kinds among it. Handlers register themselves for kinds
that are `MODELLED` and for no others; `account` demands that every cursor of a function met its handler.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.lifting.source.c.cursor import BINARY, UNARY


@dataclass(frozen=True)
class Meaning:
    """What becomes of a kind: a handler gives it its meaning, unless one of these says more.

    harmless: why it changes no value; nothing inside is looked at. refused: what stands in the way, and what
    to write instead.
    """

    harmless: str = ""
    refused: str = ""


MODELLED = Meaning()


def table(modelled: str, without: dict[str, str], refused: dict[str, str]) -> dict[str, Meaning]:
    """A table by name."""
    found: dict[str, Meaning] = dict.fromkeys(modelled.split(), MODELLED)
    for names, why in without.items():
        found |= {name: Meaning(harmless=why) for name in names.split()}
    for names, why in refused.items():
        found |= {name: Meaning(refused=why) for name in names.split()}
    return found


# Kinds of cursors, by libclang's names.

EXPRESSIONS = (
    "UNEXPOSED_EXPR DECL_REF_EXPR MEMBER_REF_EXPR CALL_EXPR INTEGER_LITERAL FLOATING_LITERAL "
    "CHARACTER_LITERAL PAREN_EXPR UNARY_OPERATOR ARRAY_SUBSCRIPT_EXPR BINARY_OPERATOR "
    "COMPOUND_ASSIGNMENT_OPERATOR CONDITIONAL_OPERATOR CSTYLE_CAST_EXPR GNU_NULL_EXPR CXX_STATIC_CAST_EXPR "
    "CXX_REINTERPRET_CAST_EXPR CXX_CONST_CAST_EXPR CXX_FUNCTIONAL_CAST_EXPR CXX_BOOL_LITERAL_EXPR "
    "CXX_NULL_PTR_LITERAL_EXPR CXX_UNARY_EXPR"
)
LISTS = "INIT_LIST_EXPR"  # read by the declaration that it initialises
STATEMENTS = (
    "COMPOUND_STMT CASE_STMT DEFAULT_STMT IF_STMT SWITCH_STMT WHILE_STMT DO_STMT FOR_STMT CONTINUE_STMT "
    "BREAK_STMT RETURN_STMT NULL_STMT DECL_STMT CXX_FOR_RANGE_STMT"
)
DECLARATIONS = "VAR_DECL PARM_DECL"
_GOTO = "goto: use a loop or if and else"
_ASSEMBLY = "inline assembly: write it in C"
_NUMBERS = "only numbers are lifted"
_EXCEPTION = "an exception ends the function early; check the input before the call"
_TEMPLATE = "a template's parameter: write a function with plain parameters"
_METHOD = "a method: write a function with plain parameters"
_PREPROCESSOR = "it is over before the text has a meaning"
_LAYOUT = "another layout of memory: declare the data plainly"

CURSORS = table(
    f"{EXPRESSIONS} {LISTS} {STATEMENTS} {DECLARATIONS}",
    {
        "TYPE_REF TEMPLATE_REF NAMESPACE_REF": "part of a type or name that another cursor resolves",
        "FUNCTION_DECL": "a prototype; what a call of it means is seen at the call",
        "STRUCT_DECL ENUM_DECL UNION_DECL CLASS_DECL FIELD_DECL ENUM_CONSTANT_DECL": "a type; "
        "what variables of it mean is seen where they are declared",
        "TYPE_ALIAS_DECL NAMESPACE_ALIAS USING_DIRECTIVE USING_DECLARATION": "a name, which clang resolves",
        "TYPEDEF_DECL": "a name, which clang resolves; lengths known at run time are refused",
        "STATIC_ASSERT": "checked when compiled",
        "PREPROCESSING_DIRECTIVE MACRO_DEFINITION MACRO_INSTANTIATION INCLUSION_DIRECTIVE": _PREPROCESSOR,
        "PURE_ATTR CONST_ATTR": "a promise to the optimizer about what the body shows",
        "VISIBILITY_ATTR DLLEXPORT_ATTR DLLIMPORT_ATTR": "concerns the linker",
        "WARN_UNUSED_ATTR WARN_UNUSED_RESULT_ATTR": "concerns warnings",
        "ALIGNED_ATTR": "where data lies, not what it is",
        "CXX_FINAL_ATTR": "forbids derived classes, and does no more",
    },
    {
        "UNEXPOSED_DECL": "a declaration that is not understood: write it in plainer terms",
        "UNEXPOSED_STMT": "a statement that is not understood: write it in plainer terms",
        "UNEXPOSED_ATTR": "an attribute that is not understood: remove it",
        "GOTO_STMT INDIRECT_GOTO_STMT": _GOTO,
        "LABEL_STMT LABEL_REF": "a label for goto: use a loop or if and else",
        "ADDR_LABEL_EXPR": "the address of a label: use a loop or if and else",
        "ASM_STMT MS_ASM_STMT": _ASSEMBLY,
        "ASM_LABEL_ATTR": "a name for the assembler, behind which anything may stand: remove it",
        "CXX_TRY_STMT CXX_CATCH_STMT": f"try: {_EXCEPTION}",
        "CXX_THROW_EXPR": f"throw: {_EXCEPTION}",
        "LAMBDA_EXPR": "a lambda: write a function",
        "BLOCK_EXPR": "a block: write a function",
        "STRING_LITERAL": f"text: {_NUMBERS}",
        "COMPOUND_LITERAL_EXPR": "a compound literal: make it a variable",
        "StmtExpr": "a statement expression: make it a function",
        "GENERIC_SELECTION_EXPR": "_Generic: write the expression of the type at hand",
        "CXX_NEW_EXPR": "new: use std::vector or a local array",
        "CXX_DELETE_EXPR": "delete: use std::vector or a local array",
        "CXX_THIS_EXPR": "this: make the method a free function",
        "IMAGINARY_LITERAL": "a complex number: write its parts as two numbers",
        "FIXED_POINT_LITERAL": "a fixed-point number: use an integer or a float",
        "CXX_TYPEID_EXPR": f"typeid: {_NUMBERS}",
        "CXX_DYNAMIC_CAST_EXPR": f"dynamic_cast: {_NUMBERS}",
        "BUILTIN_BIT_CAST_EXPR": "a bit cast: compute with numbers, not with their bits",
        "CXX_ADDRSPACE_CAST_EXPR": "a cast between address spaces: use plain pointers",
        "PACK_EXPANSION_EXPR SIZE_OF_PACK_EXPR": "a parameter pack: write the arguments out",
        "CONCEPT_SPECIALIZATION_EXPR REQUIRES_EXPR CONCEPT_DECL": "a concept: write plain types",
        "OBJ_BOOL_LITERAL_EXPR OBJ_SELF_EXPR": "Objective-C: write C",
        "TEMPLATE_TYPE_PARAMETER TEMPLATE_NON_TYPE_PARAMETER TEMPLATE_TEMPLATE_PARAMETER": _TEMPLATE,
        "FUNCTION_TEMPLATE CLASS_TEMPLATE CLASS_TEMPLATE_PARTIAL_SPECIALIZATION TYPE_ALIAS_TEMPLATE_DECL": (
            "a template: write a function with plain parameters"
        ),
        "CXX_METHOD CONSTRUCTOR DESTRUCTOR CONVERSION_FUNCTION": _METHOD,
        "CXX_BASE_SPECIFIER CXX_ACCESS_SPEC_DECL FRIEND_DECL": "a class: use a struct of plain fields",
        "CXX_OVERRIDE_ATTR": _METHOD,
        "MEMBER_REF": "a field named by a designator or offsetof: list the elements in order, use no offsets",
        "VARIABLE_REF": "a variable that a lambda captures: write a function",
        "OVERLOADED_DECL_REF OVERLOAD_CANDIDATE": "a name of several functions: say which one",
        "NAMESPACE LINKAGE_SPEC TRANSLATION_UNIT MODULE_IMPORT_DECL": "what does not stand inside a function",
        "INVALID_FILE NO_DECL_FOUND NOT_IMPLEMENTED INVALID_CODE": "what the parser does not understand",
        "PACKED_ATTR": _LAYOUT,
        "ANNOTATE_ATTR NODUPLICATE_ATTR CONVERGENT_ATTR": "an attribute for special compilers: remove it",
        "IB_ACTION_ATTR IB_OUTLET_ATTR IB_OUTLET_COLLECTION_ATTR": "Objective-C: write C",
    },
)
# By how their names begin.
FAMILIES = {
    "OBJC_": "Objective-C: write C",
    "OMP_": "a directive of OpenMP: write the loop without it",
    "SEH_": f"structured exceptions: {_EXCEPTION}",
    "CUDA": "CUDA: write C or C++",
}

# Kinds of types, in their canonical form.

_WIDE = "a number wider or narrower than the machine's: use int, long, float or double"
TYPES = table(
    "VOID BOOL CHAR_U UCHAR CHAR_S SCHAR SHORT USHORT INT UINT LONG ULONG LONGLONG ULONGLONG FLOAT DOUBLE "
    "NULLPTR POINTER LVALUEREFERENCE RVALUEREFERENCE RECORD ENUM FUNCTIONPROTO FUNCTIONNOPROTO CONSTANTARRAY "
    "INCOMPLETEARRAY VARIABLEARRAY",
    {
        "TYPEDEF ELABORATED AUTO": "a name for another type, which the canonical type is",
        "INVALID": "what has no type",
    },
    {
        "UNEXPOSED": "a type that is not understood: use int, long, float or double",
        "CHAR16 CHAR32 WCHAR": "a wide character: use an integer type",
        "INT128 UINT128 LONGDOUBLE HALF FLOAT128 IBM128": _WIDE,
        "COMPLEX": "a complex number: write its parts as two numbers",
        "VECTOR EXTVECTOR": "a vector of the machine: write a loop over numbers",
        "ATOMIC": "atomic: other threads may change it; pass its value",
        "BLOCKPOINTER": "a block: write a function",
        "MEMBERPOINTER": "a pointer to a member: name the member",
        "OVERLOAD DEPENDENT DEPENDENTSIZEDARRAY": "a type that a template leaves open: write plain types",
        "PIPE": "OpenCL: write C or C++",
    },
)
TYPE_FAMILIES = {"OBJC": "Objective-C: write C", "OCL": "OpenCL: write C or C++"}

# Where variables live. What a function may read and write besides its parameters would be a hidden argument.

STORAGE = table(
    "NONE STATIC EXTERN",
    {"AUTO": "what a local variable is anyway", "REGISTER": "a hint to the compiler"},
    {
        "INVALID": "what has no storage",
        "PRIVATEEXTERN": "a variable outside the function: pass it as a parameter",
        "OPENCLWORKGROUPLOCAL": "OpenCL: write C or C++",
    },
)

# Operators, by the names of `cursor.BINARY` and `cursor.UNARY`.

OPERATORS = table(
    " ".join((*BINARY, *UNARY)),
    {},
    {
        "invalid": "an operator that is not understood: write it in plainer terms",
        "->* .*": "a pointer to a member: name the member",
        "cmp": "<=>: compare with < and ==",
        "real imag": "a complex number: write its parts as two numbers",
        "await": "a coroutine: write a function",
    },
)

# Properties of declarations and types that are no kinds of their own: what the front end asks libclang for.

PROPERTIES = {
    "volatile": "volatile: its reads and writes mean more than its value",
    "thread-local": "thread-local: it keeps its value from call to call; make it a parameter",
    "bit-field": "a bit-field: its value is cut to its width; use a whole integer and mask it",
    "anonymous field": "an anonymous struct or union: give the field a name",
    "mutable": "mutable: use a struct of plain fields",
    "flexible array": "an array without a length: use a pointer",
    "default member": "a field with a default value: set it where the variable is declared",
}


def meaning(of: dict[str, Meaning], families: dict[str, str], name: str) -> Meaning:
    """What becomes of a kind; what nobody wrote down is refused."""
    found = of.get(name)
    if found is not None:
        return found
    for prefix, why in families.items():
        if name.startswith(prefix):
            return Meaning(refused=why)
    return Meaning(refused=f"what is not known here ({name.lower()}): write it in plainer terms")


def cursor_meaning(name: str) -> Meaning:
    """What becomes of a kind of cursor."""
    return meaning(CURSORS, FAMILIES, name)


def type_meaning(name: str) -> Meaning:
    """What becomes of a kind of type."""
    return meaning(TYPES, TYPE_FAMILIES, name)
