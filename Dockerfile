# Build the image: docker build -t trainfleet-exporter --build-arg REVISION="$(git rev-parse HEAD)" .
#
# To use another package index, pass pip's settings as a secret. No layer of the image contains it:
#   docker build --secret id=pip.conf,src="$HOME/.config/pip/pip.conf" ...
# The digest pins the base. To update it, replace the digest below with the output of:
#   docker buildx imagetools inspect docker.io/library/python:3.13-slim-bookworm --format '{{.Manifest.Digest}}'
ARG BASE=docker.io/library/python:3.13-slim-bookworm@sha256:01f42367a0a94ad4bc17111776fd66e3500c1d87c15bbd6055b7371d39c124fb
ARG BUILDER=${BASE}

FROM ${BUILDER} AS build
# /opt/build has the tools that build the wheel and the SBOM. It is not in the image.
RUN python3 -m venv /opt/build && python3 -m venv /opt/trainfleet-exporter
WORKDIR /src
COPY requirements/runtime.txt requirements/build.txt requirements/sbom.txt requirements/
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    /opt/trainfleet-exporter/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
    --require-hashes -r requirements/runtime.txt \
    && /opt/build/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
    --require-hashes -r requirements/build.txt -r requirements/sbom.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
ARG REVISION=""
# Botocore keeps the data of the services that give credentials: 28 MB less.
# Pip is removed before the SBOM is written, so the SBOM lists exactly what the image contains.
RUN sed -i "s|^__revision__ = \"\"|__revision__ = \"${REVISION}\"|" src/trainfleet_exporter/__init__.py \
    && /opt/build/bin/python -m pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation \
    --no-index --wheel-dir /opt/build/wheel . \
    && pip="/opt/trainfleet-exporter/bin/python -m pip --no-cache-dir --disable-pip-version-check" \
    && ${pip} install --no-deps --no-index /opt/build/wheel/*.whl \
    && ${pip} check \
    && find /opt/trainfleet-exporter/lib -path '*/botocore/data/*' -prune -type d \
    ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -rf {} + \
    && ${pip} uninstall -q -y setuptools pip \
    && /opt/build/bin/cyclonedx-py environment /opt/trainfleet-exporter/bin/python --pyproject pyproject.toml \
    --output-reproducible --of JSON -o /opt/trainfleet-exporter/sbom.cdx.json

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="trainfleet-exporter" \
      org.opencontainers.image.description="Prometheus exporter for training jobs, pods and accelerator pools on rented clouds" \
      org.opencontainers.image.source="https://github.com/trainfleet/trainfleet-exporter" \
      org.opencontainers.image.documentation="https://github.com/trainfleet/trainfleet-exporter/blob/main/README.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The exporter needs no pip. /etc/trainfleet-exporter is for the config, /var/lib/trainfleet-exporter for a ledger.
# Mode 0755, because the process starts in the second folder, under any user id.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/ensurepip /usr/local/lib/python3*/site-packages/pip* \
    && install -d /etc/trainfleet-exporter \
    && install -d -o 65532 -g 65532 -m 0755 /var/lib/trainfleet-exporter
COPY --from=build /opt/trainfleet-exporter /opt/trainfleet-exporter
ENV PATH="/opt/trainfleet-exporter/bin:${PATH}" \
    HOME=/var/lib/trainfleet-exporter \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /var/lib/trainfleet-exporter
EXPOSE 10075
# With TLS or another port, replace this check (docker run --health-cmd, healthcheck.test of Compose). Otherwise Docker
# reports a healthy container as unhealthy. An example:
#   trainfleet-exporter healthcheck --tls.insecure-skip-verify --url=https://127.0.0.1:10443/-/healthy
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["trainfleet-exporter", "healthcheck"]
ENTRYPOINT ["trainfleet-exporter"]
CMD ["--config.file=/etc/trainfleet-exporter/config.yaml"]
