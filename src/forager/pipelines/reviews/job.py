"""What a person asks for: the reviews that one access token can read. The token itself is a secret of the job."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StrictStr

LONGEST_TOKEN = 4 * 1024
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


def checked_token(text: str) -> str:
    """Raise `ValueError` unless this can be an access token. The message never repeats it."""
    if not text.strip():
        raise ValueError("is blank; give the OAuth access token")
    if len(text) > LONGEST_TOKEN:
        raise ValueError(f"is longer than {LONGEST_TOKEN:,} characters; give the access token alone")
    if not _PRINTABLE.fullmatch(text):
        raise ValueError("holds white space, control or non-ASCII characters; give the access token alone")
    return text


AccessToken = Annotated[StrictStr, AfterValidator(checked_token)]


class ReviewsJob(BaseModel):
    """Accounts, locations and reviews of one Google Business Profile access token.

    The token is not a parameter: it is submitted beside them, sealed while the job lives, and deleted when it ends.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
