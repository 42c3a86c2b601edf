"""What an error of the S3 client means, in words for an operator. Shows no key and no signature."""

import re

_ANSWER = re.compile(r"<Code>([^<]+)</Code>.*?<Message>([^<]*)</Message>", re.DOTALL)
_SERVER = re.compile(r"Error performing [A-Z]+ (https?://[^/\s]+)")
_ROLE_SERVICES = ("169.254.169.254", "169.254.170.2", "sts.amazonaws.com")
"""Hosts that hand out the role of a machine. The client asks them if it has been given no key."""
LONGEST = 500


def explain(error: Exception) -> str:
    """Return one sentence without a full stop: the server's own words and code, or why there was no answer."""
    text = " ".join(str(error).partition("\n\nDebug source")[0].split()) or type(error).__name__
    if answer := _ANSWER.search(text):
        return f"{answer[2].rstrip('.') or 'refused'} ({answer[1]})"
    server = _SERVER.search(text)
    if server is not None and any(host in server[1] for host in _ROLE_SERVICES):
        return (
            "no access key is set, and this machine has no role: set FORAGER_S3_ACCESS_KEY and FORAGER_S3_SECRET_KEY,"
            " or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if server is not None and "error sending request" in text:
        return f"{server[1]} cannot be reached"
    return text.removeprefix("Generic S3 error: ")[:LONGEST]
