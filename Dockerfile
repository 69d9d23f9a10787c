# One image for the three processes; docker-compose.yml says which one a container runs.
FROM python:3.11-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /srv/strata
RUN python -m venv /opt/venv
# Dependencies change rarely: a layer of their own, made from pyproject.toml alone.
COPY pyproject.toml README.md LICENSE ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*project['dependencies'], *project['optional-dependencies']['postgres'], sep='\n')" > /tmp/requirements.txt \
    && /opt/venv/bin/pip install --requirement /tmp/requirements.txt
COPY alerts alerts
COPY app app
COPY collectors collectors
COPY db db
# Editable: catalogues, migrations and rule files are read where they lie.
RUN /opt/venv/bin/pip install --no-deps --editable . \
    && /opt/venv/bin/python -m compileall -q alerts app collectors db


FROM python:3.11-slim-bookworm

LABEL org.opencontainers.image.title="Strata" \
      org.opencontainers.image.description="Watches an LLM GPU cluster and sizes the next one." \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --user-group --home-dir /tmp --shell /usr/sbin/nologin strata \
    && install -d -o strata -g strata -m 0750 /data
COPY --from=build /opt/venv /opt/venv
COPY --from=build /srv/strata /srv/strata
COPY .streamlit /srv/strata/.streamlit
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    STRATA_DATA=/data
WORKDIR /srv/strata
USER strata
VOLUME /data
EXPOSE 8501
STOPSIGNAL SIGTERM
CMD ["strata", "up", "--host", "0.0.0.0"]
