"""The same question of fewer series: conditions added to every selector of an expression."""

from collections.abc import Sequence

from db.promql.ast import Expression, VectorSelector
from db.promql.parse import parse
from db.promql.printer import text_of
from db.promql.walk import with_parts
from db.records import Matcher


def narrowed(text: str, matchers: Sequence[Matcher]) -> str:
    """PromQL that asks only for series which meet the matchers, too. Raises BadQuery."""

    def change(expression: Expression) -> Expression:
        if isinstance(expression, VectorSelector):
            return VectorSelector(
                (*expression.matchers, *matchers), expression.name, expression.offset_ms, expression.at
            )
        return with_parts(expression, change)

    return text_of(change(parse(text))) if matchers else text
