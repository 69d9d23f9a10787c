"""The series that the store's model is made of, and the selections that are asked of them."""

from db.labels import Labels, labels_from
from db.records import Matcher, named
from tests.db.store_model import EVERYTHING, Wanted

SHARED = [labels_from({"job": "shared", "i": str(number)}, "m0") for number in range(4)]
MANY = [labels_from({"job": "many", "i": str(number)}, "m1") for number in range(70)]
TARGETS = ("a", "b", "c")


def own_series(target: str, life: int = 0) -> list[Labels]:
    """life: how often the target was renamed; its series are new ones then, with a further label."""
    told = {"life": str(life)} if life else {}
    return [labels_from({"job": target, "i": str(number), **told}, f"m{number % 3}") for number in range(7)]


WANTED = (
    EVERYTHING,
    EVERYTHING,
    Wanted((named("m0"),), lambda labels: labels["__name__"] == "m0"),
    Wanted((Matcher("job", "=~", "a|b|none"),), lambda labels: labels["job"] in ("a", "b")),
    Wanted((Matcher("i", "=", "1"), Matcher("job", "!=", "a")), lambda d: d["i"] == "1" and d["job"] != "a"),
    Wanted((Matcher("i", "!~", "[0-4]"),), lambda labels: labels["i"] not in ("0", "1", "2", "3", "4")),
    Wanted((Matcher("none", "=", "x"),), lambda labels: False),
    Wanted(
        (Matcher("life", "=~", "|2"), named("m1")),
        lambda d: d.get("life", "2") == "2" and d["__name__"] == "m1",
    ),
    Wanted(
        (Matcher("life", "!=", ""), Matcher("i", "=~", ".*[02]")),
        lambda d: "life" in d and d["i"][-1] in "02",
    ),
)
