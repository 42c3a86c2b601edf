"""The button of a consent banner that gives least away: a refusal where there is one. Any other is passed over."""

CONSENT = ", ".join(
    (
        "#onetrust-reject-all-handler",
        "#CybotCookiebotDialogBodyButtonDecline",
        "[data-testid='uc-deny-all-button']",
        "button[data-consent='reject' i]",
        "button[class*='reject-all' i]",
        "button[id*='reject' i]",
        "button[class*='cookie' i][class*='decline' i]",
        "#cookie-close",
        "#onetrust-accept-btn-handler",
        "button[data-consent='accept' i]",
        "button[id*='cookie' i][id*='accept' i]",
        "button[class*='cookie' i][class*='accept' i]",
        "#cookie-acknowledge",
    )
)
CONSENT_WAIT = 0.4
"""Seconds for a banner to come after the page's content has: most pages have none, and each would wait in vain."""
