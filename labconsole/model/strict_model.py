"""The base of files and records, which refuses unknown keys and never changes, and its errors in plain words."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic_core import ErrorDetails

# -- the base ----------------------------------------------------------------------------------------------------------
# The base of files and records: it refuses unknown keys, and instances never change.


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# -- errors ------------------------------------------------------------------------------------------------------------
# Rephrases pydantic's validation errors.

LISTS = ("tuple_type", "list_type", "set_type")


def describe_problem(problem: ErrorDetails) -> tuple[str, str | None]:
    """The problem, without the value, and the allowed values if the error gives them."""
    if problem["type"] in LISTS:
        return "is empty" if problem["input"] is None else "is not a list", "a list in brackets, such as [a, b]"
    if problem["input"] is None and problem["msg"].startswith("Input should be "):
        return "is empty", problem["msg"].removeprefix("Input should be ").replace("a valid string", "text")
    text = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message, _, allowed = text.partition(" | allowed: ")
    return message, allowed or None
