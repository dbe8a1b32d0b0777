"""Times as seconds internally, as aware datetimes in the API, as text in events."""

from datetime import UTC, datetime


def when(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def text(seconds: int) -> str:
    return when(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def image_text(seconds: int) -> str:
    """Dates of images have milliseconds."""
    return when(seconds).strftime("%Y-%m-%dT%H:%M:%S.000Z")
