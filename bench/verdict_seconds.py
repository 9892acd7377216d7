"""Where the time of verdicts goes, by their field `seconds`."""


def means(verdicts):
    """part -> its mean in seconds, over all verdicts, of which those without the field count as 0."""
    seconds = [verdict.get("seconds", {}) for verdict in verdicts]
    parts = sorted({part for one in seconds for part in one})
    return {part: sum(one.get(part, 0) for one in seconds) / len(seconds) for part in parts}
