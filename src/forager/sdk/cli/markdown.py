"""Options of commands that return Markdown, and the field of a request that they become."""

from enum import StrEnum
from typing import Annotated, Any

import typer


class LinkForm(StrEnum):
    inline = "inline"
    references = "references"
    none = "none"


Links = Annotated[
    LinkForm | None,
    typer.Option("--links", help="Links of Markdown: inline (default), references at the end, or none."),
]
NoImages = Annotated[bool, typer.Option("--no-images", help="Leave pictures out of the Markdown.")]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", min=1, max=1_000_000, help="Cut the Markdown at about this size, in tokens."),
]
FrontMatter = Annotated[
    bool, typer.Option("--front-matter", help="Begin the Markdown with title, URL, date, author, … as YAML.")
]


def markdown_options(
    links: LinkForm | None, *, no_images: bool, max_tokens: int | None = None, front_matter: bool = False
) -> dict[str, Any]:
    """Return the field `markdown` of a request, with the options that were given; empty if none was."""
    given: dict[str, Any] = {"links": links.value} if links else {}
    if no_images:
        given["images"] = False
    if max_tokens is not None:
        given["max_tokens"] = max_tokens
    if front_matter:
        given["front_matter"] = True
    return {"markdown": given} if given else {}
