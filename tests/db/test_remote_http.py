"""What must not follow from how an engine, or who stands before it, answers."""

import pytest

from db.promql.errors import SourceUnavailable
from db.remote import RemoteEngine
from db.remote_settings import PrometheusSettings
from tests.remote_engines import scripted_engine, success


def test_a_redirect_does_not_take_the_tenants_headers_elsewhere() -> None:
    with scripted_engine(lambda _: success({"resultType": "vector", "result": []})) as elsewhere:
        answer = (302, {"Location": f"{elsewhere.url}/api/v1/query"}, b"")
        with scripted_engine(lambda _: answer) as engine:
            client = RemoteEngine(
                PrometheusSettings(query_url=engine.url, headers={"X-Api-Key": "sesame"}),
            )
            with pytest.raises(SourceUnavailable, match="give the address that it redirects to as query_url"):
                client.check()
            client.close()
    assert elsewhere.asked == []
