# Forager with its extras and a Chromium, run by a user without privileges.
#   docker build -t forager .
# The first stage builds the environment, the second holds only what runs: no compiler, no package index, no source.
FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_CONSTRAINT=/src/constraints.txt
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src ./src
# The version of the tag, which is not in the build context: --build-arg FORAGER_VERSION=1.2.3.
ARG FORAGER_VERSION=0.1.0.dev0
RUN python -m venv /opt/forager \
    && SETUPTOOLS_SCM_PRETEND_VERSION=$FORAGER_VERSION /opt/forager/bin/pip install '.[bigquery,browser,celery,dlt,documents,duckdb,excel,fields,kafka,mcp,notify,otel,parquet,postgres,prefect,s3]'

FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends chromium-headless-shell fonts-liberation tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 forager \
    && useradd --uid 10001 --gid forager --no-create-home --home-dir /data forager \
    && install --directory --owner forager --group forager /data
COPY --from=build /opt/forager /opt/forager
ENV PATH=/opt/forager/bin:$PATH \
    FORAGER_HOME=/data \
    FORAGER_LOG_FORMAT=json \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8001 9100
# A first process that reaps the browsers' children and passes SIGTERM on, so that in-flight tasks finish.
ENTRYPOINT ["tini", "--", "forager"]
CMD ["up"]
