"""What every store of skills says in the same words."""

from __future__ import annotations

import difflib

from deerflow.errors import NotFoundError
from deerflow.skills.protocol import SkillListing


def no_skill(name: str, listing: SkillListing) -> NotFoundError:
    """The error for a skill that is not there, naming what is near it or why it is not loaded."""
    for problem in listing.problems:
        if f"/{name}/" in f"{problem.path}/":
            return NotFoundError(
                f"The skill {name!r} is not loaded: {problem.reason} ({problem.path}).",
                cure=problem.cure,
            )
    names = [skill.name for skill in listing.skills]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:10]
    cure = f"There is: {', '.join(near)}." if near else "No skill is installed."
    return NotFoundError(f"There is no skill {name!r}.", cure=cure)
