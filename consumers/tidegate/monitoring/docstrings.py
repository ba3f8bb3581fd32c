"""The docstrings below attributes: one text for the code, the docs and what is printed."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from types import ModuleType


def attribute_docs(kind: type | ModuleType) -> dict[str, str]:
    """The docstrings of the attributes of a class, without its bases, or of a module's."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    if isinstance(kind, type):
        body = getattr(body[0], "body", [])
    found: dict[str, str] = {}
    for attribute, text in pairwise(body):
        match attribute, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str() as doc)),
            ):
                found[name] = " ".join(doc.split())
            case _:
                pass
    return found
