"""Invented names, categories and sentences of the Google world. Pure."""

_FIRST = ("Quarry", "Harbor", "Maple", "Foundry", "Juniper", "Lantern", "Summit", "Orchard", "Mill", "Crescent")
_SECOND = ("Lofts", "Apartments", "Dental", "Coffee", "Hardware", "Fitness", "Gardens", "Bakery", "Clinic", "Suites")
_STREETS = ("Tanner St", "N Main St", "Oak Ave", "Mill Rd", "Elm St", "Depot Ln", "Lake Dr", "Orchard Way")
_CATEGORIES = (
    ("apartment_building", "Apartment building"),
    ("dentist", "Dentist"),
    ("coffee_shop", "Coffee shop"),
    ("hardware_store", "Hardware store"),
    ("gym", "Gym"),
    ("bakery", "Bakery"),
)
_COMMENTS = (
    "Friendly staff and quick answers.",
    "The elevator was out for a week.",
    "Clean, quiet, and close to the station. We would come back.",
    "Waited forty minutes although we had an appointment.",
    "Great value — five stars from the whole family! 😀",
    "It is fine.\n\nParking is hard after six, though.",
    'They said "next week" three times.',
)
_ORIGINALS = (("Very good, thank you.", "Muy bueno, gracias."), ("Too loud at night.", "Nachts zu laut."))
_REPLIES = (
    "Thank you for your visit!",
    "We are sorry, and it is fixed now.",
    "Please call us: we want to put it right.",
)
_INITIALS = "ABCDEFGHIJKLMNOPRSTVW"


def name_of(drawn: float) -> str:
    number = int(drawn * len(_FIRST) * len(_SECOND))
    return f"{_FIRST[number % len(_FIRST)]} {_SECOND[number // len(_FIRST)]}"


def street_of(drawn: int) -> str:
    return _STREETS[drawn % len(_STREETS)]


def category_of(drawn: int) -> dict[str, str]:
    code, shown = _CATEGORIES[drawn % len(_CATEGORIES)]
    return {"name": f"categories/gcid:{code}", "displayName": shown}


def reviewer_of(drawn: int) -> str:
    """An invented display name: two initials and a number, so that it is not a real person's."""
    return f"{_INITIALS[drawn % 21]}. {_INITIALS[drawn // 21 % 21]}. {drawn}"


def comment_of(drawn: int, location: int, number: int) -> str | None:
    """The text of a review; None for a rating without one. Foreign texts come with Google's translation."""
    if drawn % 7 == 0:
        return None
    if drawn % 13 == 1:
        translated, original = _ORIGINALS[drawn // 13 % len(_ORIGINALS)]
        return f"(Translated by Google) {translated}\n\n(Original)\n{original}"
    return f"{_COMMENTS[drawn // 7 % len(_COMMENTS)]} ({location}/{number})"


def reply_of(drawn: int) -> str:
    return _REPLIES[drawn // 3 % len(_REPLIES)]
